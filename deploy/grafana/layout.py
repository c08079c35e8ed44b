"""Panels, rows and boards, and the JSON that Grafana reads. Places are worked out here, never written by hand.
Called by the boards (which declare) and build.py (which writes).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from deploy.grafana.queries import Query

Kind = Literal["timeseries", "stat", "table"]

WIDTH = 24
_HEIGHTS: dict[Kind, int] = {"timeseries": 7, "stat": 4, "table": 7}
# As provisioned in deploy/grafana/provisioning.
DATASOURCE = {"type": "prometheus", "uid": "prometheus"}
_SCHEMA = 41


@dataclass(frozen=True)
class Panel:
    """One drawing. ``unit`` is Grafana's name of it; ``alarm`` colours values from there on red."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: Kind = "timeseries"
    width: int = 6
    about: str = ""
    alarm: float | None = None
    stacked: bool = False


@dataclass(frozen=True)
class Row:
    """A heading and the panels below it, placed from left to right."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Board:
    """One dashboard; ``name`` is its file's."""

    name: str
    title: str
    about: str
    rows: tuple[Row, ...]

    def render(self) -> str:
        """The file's text."""
        return json.dumps(self._document(), indent=2, ensure_ascii=False) + "\n"

    def _document(self) -> dict[str, Any]:
        return {
            "uid": f"kenari-{self.name}",
            "title": self.title,
            "description": self.about,
            "tags": ["kenari"],
            "editable": False,
            "schemaVersion": _SCHEMA,
            "timezone": "browser",
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timepicker": {},
            "templating": {"list": []},
            "annotations": {"list": []},
            "links": [
                {"title": "kenari", "type": "dashboards", "tags": ["kenari"], "asDropdown": True, "keepTime": True}
            ],
            "panels": list(_placed(self.rows)),
        }


def _placed(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    number, top = 1, 0
    for row in rows:
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
        }
        number, top = number + 1, top + 1
        left = height = 0
        for panel in row.panels:
            if left + panel.width > WIDTH:
                left, top, height = 0, top + height, 0
            place = {"x": left, "y": top, "w": panel.width, "h": _HEIGHTS[panel.kind]}
            yield _panel(panel, number, place)
            number, left, height = number + 1, left + panel.width, max(height, _HEIGHTS[panel.kind])
        top += height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    instant = panel.kind != "timeseries"
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.alarm is not None:
        steps.append({"color": "red", "value": panel.alarm})
    defaults: dict[str, Any] = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries":
        defaults |= {"min": 0, "custom": _lines(panel)}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _OPTIONS[panel.kind],
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": DATASOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
                "instant": instant,
                "range": not instant,
                "format": "table" if panel.kind == "table" else "time_series",
            }
            for place, query in enumerate(panel.queries)
        ],
    }


def _lines(panel: Panel) -> dict[str, Any]:
    return {
        "lineWidth": 1,
        "fillOpacity": 25 if panel.stacked else 5,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "off" if panel.alarm is None else "line"},
        "spanNulls": False,
    }


_OPTIONS: dict[Kind, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "value_and_name",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
}
