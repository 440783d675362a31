"""Pages that `--html` writes, and the data in them."""

import json
import re
from typing import Any

from lowtide.planning.plan import Plan
from lowtide.view.html_page import render_html
from lowtide.view.page_data.plan import plan_data
from lowtide.view.page_data.tide import tide_data
from lowtide.view.reports.plan import PlanReport
from lowtide.view.reports.tide import TideReport


def tide_page(report: TideReport) -> str:
    return render_html("tide", tide_data(report))


def plan_page(plan: Plan, file: str = "a.plan") -> str:
    return render_html("plan", plan_data(PlanReport(plan, file=file)))


def read_data(page: str) -> dict[str, Any]:
    """Return what a page carries to be drawn."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["data"]


def check_self_contained(page: str) -> None:
    """Check that a page fetches nothing, and that no name in it can end its data."""
    assert page.startswith("<!doctype html>")
    assert "<img" not in page
    assert page.count("</script>") == 2
    assert "default-src 'none'" in page
    assert set(re.findall(r"https?://[^\s\"'`<>)]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|script|img)[^>]+(src|href)=\"(?!data:)", page)
