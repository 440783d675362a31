"""The answers of the API, one method per address, as plain data."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import lowtide
from lowtide.atlas.atlas import Atlas
from lowtide.atlas.breadth_first import BOTH, INPUTS, READERS, ReachedNodes, around, shortest_paths
from lowtide.atlas.index.phases import PHASES
from lowtide.atlas.node_details import node_details
from lowtide.atlas.screens.breadcrumbs import breadcrumbs_to_node, breadcrumbs_to_scope
from lowtide.atlas.screens.comparison import compare_screens
from lowtide.atlas.screens.group_borders import group_borders
from lowtide.atlas.screens.screen import Values, make_node_screen
from lowtide.atlas.screens.screen_cache import screen_data
from lowtide.atlas.search import Query, search
from lowtide.atlas.tide_overlay import COLOUR_MODES, find_tensor_nodes
from lowtide.sources.graphs.files import is_run_history
from lowtide.sources.graphs.find_graphs import RUN, Span
from lowtide.view.page_data.training_run import training_run_data
from lowtide.view.reports.training_run import read_run_report
from lowtide.view.server.indexes import Index, Indexes
from lowtide.view.server.library import Contents, File, Library
from lowtide.view.server.queries import Parameters, Refusal
from lowtide.view.server.tides import TideCache

JsonObject = dict[str, Any]

# How long the list of files waits for files that have not been read yet.
_LOOKING_SECONDS = 0.5
# Tides and plans are small: a request for one waits until it has been read.
_READING_SECONDS = 10.0
_PATIENT_SECONDS = 60.0
_MOST_HOPS, _MOST_RESULTS = 20, 500
# A search text is compared with every name, character by character.
_MOST_SEARCHED, _MOST_OPS = 1000, 200


class StillReading(Refusal):
    """The contents of a file are not known yet."""

    def __init__(self) -> None:
        super().__init__(503, "this file is still being read", "ask again in a moment")


class GraphAddress(NamedTuple):
    """Which graph of which file a request is about."""

    file: File
    number: int
    span: Span


class Api:
    """Answers requests about the graphs, tides, plans and training runs of a library."""

    def __init__(self, library: Library, indexes: Indexes) -> None:
        self.library = library
        self._indexes = indexes
        self._tides = TideCache()
        self._graph_queries: dict[str, Callable[[Atlas, Parameters], JsonObject]] = {
            "screen": self._screen,
            "node": self._node,
            "group": _group,
            "search": _search,
            "around": self._around,
            "paths": self._paths,
            "locate": _locate,
            "trail": _trail,
        }

    def files(self, seconds: float = _LOOKING_SECONDS) -> JsonObject:
        """Return all files, and the graphs in them."""
        files = self.library.files()
        self.library.inspect(files)
        self.library.wait(files, seconds)
        graphs = [
            GraphAddress(file, number, span)
            for file in files
            if file.contents is not None
            for number, span in enumerate(file.contents.spans)
        ]
        if len(graphs) == 1 and all(file.is_known for file in files):
            # The page will show this one first.
            self._indexes.ask(*graphs[0])
        return {
            "version": lowtide.__version__,
            "title": self.library.title,
            "files": [self._file(file) for file in files],
        }

    def has_content(self) -> bool:
        """Whether there is anything to show; files are read only until one has content."""
        files = self.library.files()
        if any(file.path.suffix in (".tide", ".plan") or is_run_history(file.path) for file in files):
            return True
        for file in files:
            self.library.inspect_now(file, _PATIENT_SECONDS)
            if file.contents is not None and file.contents.spans:
                return True
        return False

    def graph(self, name: str) -> JsonObject:
        """Return the summary of a graph, or how far its index is."""
        try:
            address = self._find_graph(name)
        except StillReading:
            return {"state": "waiting", "progress": None, "nodes": 0, "stage": "reading the file"}
        return self._with_retry([address], lambda: _described(address, self._indexes.ask(*address)))

    def query_graph(self, name: str, verb: str, parameters: Parameters) -> JsonObject:
        """Answer a query about a graph whose index is ready."""
        answer = self._graph_queries.get(verb)
        if answer is None:
            raise Refusal(404, "there is no such address", "reload the page")
        return self._with_atlases([name], lambda atlases: answer(atlases[0], parameters))

    def difference(self, parameters: Parameters) -> JsonObject:
        """Return the screen of one scope in two graphs, compared."""
        names = [parameters.needed("one"), parameters.needed("other")]
        path, fold = parameters.text("path"), parameters.text("fold")
        part = parameters.number("part")
        return self._with_atlases(
            names, lambda atlases: compare_screens(atlases[0], atlases[1], path, fold, part).to_dict()
        )

    def tide(self, name: str, parameters: Parameters) -> JsonObject:
        """Return the data that the page draws of a tide."""
        return self._tides.tide_page(self._file_of(name, "tide"), parameters.text("tensor") or None)

    def plan(self, name: str) -> JsonObject:
        """Return the data that the page draws of a plan."""
        return self._tides.plan_page(self._file_of(name, "plan"))

    def training_run(self, name: str) -> JsonObject:
        """Return the data that the page draws of a training run."""
        # It is read each time: whether its process is running is not in the file.
        return training_run_data(read_run_report(self._file_of(name, RUN).path.parent))

    # -- files ----------------------------------------------------------------------------------------

    def _file(self, file: File) -> JsonObject:
        contents, problem = file.contents, file.problem
        entry: JsonObject = {
            "id": file.number,
            "path": file.display_name,
            "run": file.run,
            "bytes": file.stamp[0],
            "kind": contents.kind if contents is not None else "reading" if problem is None else "unreadable",
            "notes": [*(contents.notes if contents else ()), *([problem.error] if problem else ())],
        }
        if contents is None:
            return entry | {"graphs": []}
        if contents.kind in ("tide", "plan", RUN):
            return entry | contents.facts
        return entry | {"graphs": [self._graph_entry(file, contents, number) for number in range(len(contents.spans))]}

    def _graph_entry(self, file: File, contents: Contents, number: int) -> JsonObject:
        span = contents.spans[number]
        entry: JsonObject = {
            "id": f"{file.number}.{number}",
            "label": span.label,
            "state": self._indexes.state(file, number),
            "nodes": contents.node_counts[number],
            "bytes": span.end - span.start,
        }
        if span.function is not None:
            entry["function"] = span.function._asdict() | {"tag": span.tag}
        return entry

    def _file_of(self, name: str, kind: str) -> File:
        file = self.library.file(int(name)) if name.isascii() and name.isdecimal() and len(name) < 10 else None
        if file is not None:
            # A link to this file may be the first request that the server gets.
            self.library.inspect_now(file, _READING_SECONDS)
        if file is None or file.contents is None or file.contents.kind != kind:
            if file is not None and not file.is_known:
                raise StillReading
            raise Refusal(404, f"there is no such {kind}", "choose one from the list of files")
        return file

    def _find_graph(self, name: str) -> GraphAddress:
        number, _, place = name.partition(".")
        is_name = all(text.isascii() and text.isdecimal() and len(text) < 10 for text in (number, place))
        file = self.library.file(int(number)) if is_name else None
        if file is None:
            raise Refusal(404, "there is no such graph", "choose one from the list of files")
        self.library.inspect_now(file, _LOOKING_SECONDS)
        if not file.is_known:
            raise StillReading
        spans = file.contents.spans if file.contents is not None else ()
        if int(place) >= len(spans):
            raise Refusal(404, "there is no such graph in the file", "choose one from the list of files")
        return GraphAddress(file, int(place), spans[int(place)])

    # -- graphs ---------------------------------------------------------------------------------------

    def _with_atlases(self, names: list[str], answer: Callable[[list[Atlas]], JsonObject]) -> JsonObject:
        address = [self._find_graph(name) for name in names]
        return self._with_retry(address, lambda: answer([self._atlas(each) for each in address]))

    def _with_retry(self, address: list[GraphAddress], answer: Callable[[], JsonObject]) -> JsonObject:
        """Call `answer`, and once more if the files of an index are gone because a newer index has replaced them."""
        try:
            return answer()
        except FileNotFoundError:
            for each in address:
                self._indexes.forget(each.file, each.number)
            return answer()
        finally:
            self._indexes.release_memory()

    def _atlas(self, address: GraphAddress) -> Atlas:
        index = self._indexes.ask(*address)
        if index.opened is not None:
            return index.opened.atlas
        if index.problem is not None and index.progress is None:
            raise Refusal(422, index.problem.error, index.problem.cure)
        raise Refusal(503, "the index of this graph is still being built", "ask again in a moment")

    def _screen(self, atlas: Atlas, parameters: Parameters) -> JsonObject:
        part, path, fold = parameters.number("part"), parameters.text("path"), parameters.text("fold")
        return screen_data(atlas, part, path, fold, self._values(atlas, parameters))

    def _values(self, atlas: Atlas, parameters: Parameters) -> Values | None:
        tide, colour = parameters.text("tide"), parameters.choice("colour", ("", *COLOUR_MODES))
        return self._tides.values(atlas, self._file_of(tide, "tide"), colour) if tide and colour else None

    def _around(self, atlas: Atlas, parameters: Parameters) -> JsonObject:
        node = _node_named(atlas, parameters, "name")
        hops = parameters.number("hops", 2, 1, _MOST_HOPS)
        found = around(atlas, node, hops, parameters.choice("direction", (BOTH, INPUTS, READERS)))
        return self._nodes(atlas, found, f"around {atlas.name(node)}", parameters)

    def _paths(self, atlas: Atlas, parameters: Parameters) -> JsonObject:
        start, end = _node_named(atlas, parameters, "from"), _node_named(atlas, parameters, "to")
        found = shortest_paths(atlas, start, end)
        if found is None:
            raise Refusal(404, "no path leads from one to the other", "swap them, or choose others")
        return self._nodes(atlas, found, f"from {atlas.name(start)} to {atlas.name(end)}", parameters)

    def _nodes(self, atlas: Atlas, found: ReachedNodes, title: str, parameters: Parameters) -> JsonObject:
        values = self._values(atlas, parameters)
        return make_node_screen(atlas, found.nodes, _part(atlas, parameters), title, found.hidden, values).to_dict()

    def _node(self, atlas: Atlas, parameters: Parameters) -> JsonObject:
        node = _node_named(atlas, parameters, "name")
        tide = parameters.text("tide")
        details = node_details(atlas, node, parameters.number("inputs_from"), parameters.number("readers_from"))
        tensors = self._tides.node_tensors(atlas, self._file_of(tide, "tide"), node) if tide else None
        return details | {"tide": tensors}


def _unfinished(index: Index) -> JsonObject:
    if index.progress is None and index.problem is not None:
        return {"state": "failed", "error": index.problem.error, "cure": index.problem.cure}
    progress = index.progress
    return {
        "state": index.state,
        "progress": None if progress is None else progress.share,
        "nodes": (progress and progress.nodes) or 0,
        "stage": "waiting" if progress is None else progress.stage,
    }


def _described(address: GraphAddress, index: Index) -> JsonObject:
    opened, contents = index.opened, address.file.contents
    if opened is None:
        return _unfinished(index)
    atlas = opened.atlas
    file_notes = () if contents is None else contents.notes
    is_built = index.progress is not None
    changed = ("the file has changed; its index is being built again",) if is_built else ()
    return {
        "state": "ready",
        "label": address.span.label,
        "path": address.file.display_name,
        "nodes": len(atlas),
        "edges": atlas.edge_count,
        "notes": list(dict.fromkeys((*atlas.notes, *address.span.notes, *file_notes, *changed))),
        "changing": is_built or address.file.inspected_stamp != address.file.stamp,
        "built": {"seconds": atlas.header.get("seconds"), "peak_bytes": opened.peak_bytes},
    } | opened.summary


def _part(atlas: Atlas, parameters: Parameters) -> int:
    return parameters.number("part", high=len(atlas.parts) - 1)


def _node_named(atlas: Atlas, parameters: Parameters, parameter: str) -> int:
    node = atlas.find(parameters.needed(parameter), _part(atlas, parameters))
    if node is None:
        raise Refusal(404, "there is no node of this name in the graph", "search for it")
    return node


def _search(atlas: Atlas, parameters: Parameters) -> JsonObject:
    began = time.monotonic()
    ops = tuple(filter(None, parameters.text("op").split(",")))
    if len(ops) > _MOST_OPS:
        raise Refusal(400, "too many ops", f"give at most {_MOST_OPS}")
    query = Query(
        text=parameters.text("q", _MOST_SEARCHED),
        part=parameters.optional_number("part", high=len(atlas.parts) - 1),
        ops=ops,
        scope=parameters.text("scope"),
        device=parameters.text("device", _MOST_SEARCHED),
        dtype=parameters.text("dtype", _MOST_SEARCHED),
        phase=parameters.choice("phase", ("", *PHASES)),
        least_bytes=parameters.number("bytes"),
    )
    found = search(atlas, query, parameters.number("limit", 50, 1, _MOST_RESULTS))
    results = [
        {
            "part": atlas.part_of_scope(int(scope)),
            "name": atlas.scope_name(int(scope)),
            "op": None,
            "kind": "scope",
            "nodes": int(atlas.scope_last[scope]) - int(atlas.scope_first[scope]),
        }
        for scope in found.scopes
    ]
    results += [
        {"part": atlas.part_of(int(node)), "name": name, "op": atlas.op_of(int(node)), "kind": "node", "nodes": 1}
        for node, name in zip(found.nodes, atlas.names(found.nodes), strict=True)
    ]
    milliseconds = round(1000 * (time.monotonic() - began), 1)
    return {"total": found.total, "results": results, "milliseconds": milliseconds}


def _group(atlas: Atlas, parameters: Parameters) -> JsonObject:
    path, fold = parameters.text("path"), parameters.text("fold")
    pages = parameters.number("inputs_from"), parameters.number("outputs_from")
    return group_borders(atlas, _part(atlas, parameters), path, fold, *pages)


def _locate(atlas: Atlas, parameters: Parameters) -> JsonObject:
    (node,) = find_tensor_nodes(atlas, [parameters.needed("tensor")])
    return {"name": None} if node is None else {"part": atlas.part_of(node), "name": atlas.name(node)}


def _trail(atlas: Atlas, parameters: Parameters) -> JsonObject:
    """Return what to open until a node or a scope is on the screen; of a node and a scope of one name, the node."""
    name, part = parameters.needed("name"), _part(atlas, parameters)
    kind = parameters.choice("kind", ("", "node", "scope"))
    node = None if kind == "scope" else atlas.find(name, part)
    if node is not None:
        return {"kind": "node", "trail": breadcrumbs_to_node(atlas, node)}
    scope = None if kind == "node" else atlas.find_scope(name, part)
    if scope is None:
        raise Refusal(404, "there is no node or scope of this name in the graph", "search for it")
    return {"kind": "scope", "trail": breadcrumbs_to_scope(atlas, scope)}
