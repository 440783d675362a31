"""The dtype of any output of a node, from its attributes and a table of ops."""

from __future__ import annotations

import re

import numpy as np

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.index.arrays import Bytes
from lowtide.atlas.index.node_spans import NODE_ATTRIBUTE
from lowtide.atlas.index.outputs import LIST_TYPE, VALUE_LIST, VALUE_TYPE, read_attributes
from lowtide.atlas.index.text import hash_text
from lowtide.program.dtypes import RESOURCE, STRING, VARIANT
from lowtide.sources.protobuf.wire import BYTES, VARINT
from lowtide.sources.protobuf.wire_columns import Fields, scan

_FLOAT, _UINT8, _INT32, _INT64, _BOOL, _UINT64 = 1, 4, 3, 9, 10, 23

# Outputs with a fixed dtype, whatever the attributes say, as `op:port`.
_FIXED_OUTPUTS = {
    _BOOL: r"(VarIsInitializedOp|IsVariableInitialized|LoopCond|ToBool|InTopK(V2)?|(Static)?RegexFullMatch"
    r"|OptionalHasValue|TensorMapHasKey|ResourceInitializedOp|QueueIsClosed(V2)?):0"
    r"|(Sparse|Ragged)FillEmptyRows:2",
    _INT32: r"(Rank|Bucketize|StatelessRandomGetAlg|TensorListLength|StringLength|UnicodeScript|SetSize|DeviceIndex"
    r"|NonMaxSuppression(V\d|WithOverlaps)?|(Stage|Map|OrderedMap|Queue|TensorArray|TensorMap)Size(V\d)?):0"
    r"|(Ref)?Merge:1|TopK(V2)?:1|StatelessRandomGetKeyCounterAlg:2|NonMaxSuppressionV4:1|NonMaxSuppressionV5:2"
    r"|CombinedNonMaxSuppression:3|DecodeWav:1",
    _INT64: r"(Where|StringToHashBucket(Fast|Strong)?|Lookup\w*Size(V2)?|DatasetCardinality|ComputeBatchSize"
    r"|SparseReorder|SparseReshape|SparseSlice|SparseConcat|SparseAdd|SparseFillEmptyRows|SparseCross(V2)?"
    r"|StringSplit(V2)?|RaggedTensorToSparse|CTCGreedyDecoder|\w+CandidateSampler|DeserializeSparse):0"
    r"|(SparseSlice|SparseConcat|SparseAdd|StringSplit(V2)?|SparseCross(V2)?|DeserializeSparse"
    r"|RaggedTensorToSparse):2|(SparseReshape|TensorArrayConcat(V\d)?|TensorListConcat(V2)?|StringNGrams):1"
    r"|SparseFillEmptyRows:3|CTCGreedyDecoder:[12]|Fractional(Max|Avg)Pool:[12]",
    _UINT64: r"StatelessRandomGetKeyCounter(Alg)?:[01]",
    _UINT8: r"Decode(AndCrop)?(Jpeg|Gif|Bmp):0",
    STRING: r"(AsString|StringJoin|StringFormat|StringUpper|StringLower|StringStrip|StringNGrams|Substr|ReduceJoin"
    r"|UnsortedSegmentJoin|(Static)?RegexReplace|\w*Summary(V\d)?|Encode\w+|Decode(Base64|Compressed|JSONExample)"
    r"|ReadFile|MatchingFiles|Sharded(Filename|Filespec)|SerializeTensor|Unicode(Encode|Transcode)"
    r"|IteratorToStringHandle):0|(StringSplit(V2)?|SparseCross(V2)?):1|ReaderRead(UpTo)?(V2)?:[01]",
    _FLOAT: r"(Resize(Area|Bilinear|Bicubic)|ScaleAndTranslate|CropAndResize|FakeQuant\w+|SparseMatMul|Mfcc"
    r"|AudioSpectrogram|DecodeWav|TensorArray(Write|Scatter|Split)(V\d)?):0|TensorArray(V3|GradV3):1"
    r"|\w+CandidateSampler:[12]|CombinedNonMaxSuppression:[012]|DrawBoundingBoxes\w*:0",
    RESOURCE: r"(TensorArray(Grad)?V3|TensorArrayGradWithShape|MutexV2|IteratorFromStringHandle(V2)?):0",
    VARIANT: r"(TensorListPopBack|IteratorGetNextAsOptional|Optional(None|FromValue)|EmptyTensorMap"
    r"|TensorMap(Insert|Erase)|RaggedTensorToVariant|CompressElement|SparseMatrix(Mul|Add|Transpose|SparseMatMul|Zeros)):0"
    r"|Anonymous\w+:1",
}
_FIXED = [(dtype, re.compile(pattern)) for dtype, pattern in _FIXED_OUTPUTS.items()]
# The attribute that holds the dtype of the outputs after the first, or of all outputs.
_NAMED = {
    "FusedBatchNormV2": "U",
    "FusedBatchNormV3": "U",
    "FusedBatchNormGradV2": "U",
    "FusedBatchNormGradV3": "U",
    "Unique": "out_idx",
    "UniqueV2": "out_idx",
    "UniqueWithCounts": "out_idx",
    "MaxPoolWithArgmax": "Targmax",
    "TensorListPopBack": "element_dtype",
}
_NAMED_FIRST = {
    "Range": "Tidx",
    "UnravelIndex": "Tidx",
    "StackPopV2": "elem_type",
    "TensorListElementShape": "shape_type",
    "Recv": "tensor_type",
    "_Recv": "tensor_type",
    "_HostRecv": "tensor_type",
} | {f"{kind}{rank}": "Tcomplex" for kind in ("FFT", "IFFT", "RFFT") for rank in ("", "2D", "3D", "ND")}
_VARIANTS = re.compile(r".*Dataset(V\d)?|(Empty)?TensorList(?!GetItem|Stack|Gather|Concat|ElementShape|Pop|Length).*")
_RESOURCES = re.compile(r".*(HashTable|Queue|Stack|Barrier)V\d|.*Iterator(V\d)?|Anonymous.*|.*HandleOp")
_REFERENCES = re.compile(
    r"Variable(V2)?|TemporaryVariable|Assign(Add|Sub)?|Ref(Identity|Switch|Merge|Enter|Exit|NextIteration|Select)"
    r"|Scatter(Update|Add|Sub|Mul|Div|Min|Max|NdUpdate|NdAdd|NdSub)|(Sparse)?Apply[A-Z].*"
)
# Attributes that list the dtype of each output.
_LISTS = tuple(
    np.uint64(hash_text(key)) for key in ("Tout", "output_types", "Toutput_types", "component_types", "dtypes", "T")
)


def output_dtype(atlas: Atlas, data: Bytes, node: int, port: int) -> int:
    """Return TensorFlow's number for the dtype of an output; 0 where it is unknown."""
    op, first = atlas.op_of(node), int(atlas.dtype[node])
    for dtype, pattern in _FIXED:
        if pattern.fullmatch(f"{op}:{port}"):
            return dtype
    if _VARIANTS.fullmatch(op):
        return VARIANT
    if _RESOURCES.fullmatch(op):
        return RESOURCE
    attribute = (_NAMED_FIRST if port == 0 else _NAMED).get(op)
    if port == 0 and attribute is None:
        return first
    attributes = _attributes(atlas, data, node)
    named = None if attribute is None else np.uint64(hash_text(attribute))
    for key, number, kind, start, end in attributes:
        if key == named and number == VALUE_TYPE and kind == VARINT:
            return start
        if key in _LISTS and number == VALUE_LIST and kind == BYTES:
            types = _types(data, start, end)
            if port < len(types):
                return types[port]
    return first


def gives_references(op: str, port: int) -> bool:
    """Return whether an output is a TensorFlow 1 reference to a variable, which a placeholder cannot replace."""
    return port == 0 and _REFERENCES.fullmatch(op) is not None


def _attributes(atlas: Atlas, data: Bytes, node: int) -> list[tuple[np.uint64, int, int, int, int]]:
    start, end = atlas.bytes_in_file(node)
    fields = scan(data, np.array([start]), np.array([end])).of(NODE_ATTRIBUTE)
    read = read_attributes(data, fields)
    value: Fields = read.value
    columns = (value.number.tolist(), value.kind.tolist(), value.start.tolist(), value.end.tolist())
    return list(zip(read.key[value.owner], *columns, strict=True))


def _types(data: Bytes, start: int, end: int) -> list[int]:
    """Read a list of dtypes, packed as numbers below 128 or as one field each."""
    fields = scan(data, np.array([start]), np.array([end]))
    packed = fields.of(LIST_TYPE)
    types = [int(byte) for low, high in zip(packed.start, packed.end, strict=True) for byte in data[low:high]]
    return types or fields.of(LIST_TYPE, VARINT).start.tolist()
