"""Views of an experiment that need no set-up, kept where MLflow's Share button keeps views: in its tags.

`curricula` lists curricula, and charts both rates by stages trained, a line a curriculum; `engineers` a line
an engineer variant, the mean over its seeds; `stages` lists stages.
"""

import json
import shlex
from typing import Any

from infra.config.settings import without_password

_RATES = ("valid", "optimal")
_SECTION = {
    "uuid": "rates",
    "name": "By stages trained",
    "display": True,
    "isReordered": False,
    "deleted": False,
    "isGenerated": False,
    "columns": 2,
    "cardHeight": 420,
}
"""MLflow's own sections have three small charts a row."""


def _chart(rate: str) -> dict[str, Any]:
    """A rate by stages trained, as MLflow keeps a line chart."""
    return {
        "uuid": rate,
        "type": "LINE",
        "metricSectionId": _SECTION["uuid"],
        "displayName": rate,
        "metricKey": rate,
        "selectedMetricKeys": [rate],
        "runsCountToCompare": 10,
        "deleted": False,
        "isGenerated": False,
        "lineSmoothness": 0,
        "xAxisKey": "step",
        "selectedXAxisMetricKey": "",
        "xAxisScaleType": "linear",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "scaleType": "linear",
        "range": {},
        "ignoreOutliers": False,
        "useGlobalXaxisKey": False,
        "useGlobalLineSmoothing": True,
    }


def _view(
    level: str,
    params: tuple[str, ...],
    order: str,
    ascending: bool,
    tags: tuple[str, ...] = (),
    grouped: str = "",
) -> str:
    columns = (
        [f"params.`{name}`" for name in params]
        + [f"tags.`{name}`" for name in tags]
        + [f"metrics.`{name}`" for name in _RATES]
    )
    # Ordered by time, stages would be folded away under their curricula.
    shown = {"selectedColumns": columns, "orderByKey": order, "orderByAsc": ascending}
    # Reordered: MLflow sorts sections by name otherwise, and puts its own first.
    charts = {
        "compareRunCharts": list(map(_chart, _RATES)),
        "compareRunSections": [_SECTION],
        "isAccordionReordered": True,
        "chartsSearchFilter": "^(valid|optimal)$",
    }
    if grouped:
        keys = [{"mode": "param", "groupByData": grouped}]
        shown["groupBy"] = {"aggregateFunction": "average", "groupByKeys": keys}
    return json.dumps({**shown, **charts, "searchFilter": f"tags.level = '{level}'"})


VIEWS = {
    "mlflow.sharedViewState.curricula": _view(
        "curriculum", ("engineer variant", "seed", "preset"), "metrics.`valid`", False
    ),
    "mlflow.sharedViewState.engineers": _view(
        "curriculum",
        ("engineer variant", "seed", "preset"),
        "metrics.`valid`",
        False,
        grouped="engineer variant",
    ),
    "mlflow.sharedViewState.stages": _view(
        "stage",
        ("curriculum", "variant", "engineer", "seed", "stage"),
        "params.`curriculum`",
        True,
        ("gate",),
    ),
}
"""Tags of the experiment."""


def view_address(experiment: str, view: str, chart: bool = False) -> str:
    """Where the MLflow UI shows a view of an experiment, to be put behind the address of the server."""
    mode = "&compareRunsMode=CHART" if chart else ""
    return f"#/experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={view}{mode}"


def chart_place(tracking_uri: str, experiment: str) -> str:
    """Where the MLflow UI shows the chart of an experiment's engineer variants; without a server, after the
    command that starts it."""
    place, chart = without_password(tracking_uri), view_address(experiment, "engineers", chart=True)
    if place.startswith("http"):
        return f"{place.rstrip('/')}/{chart}"
    # A login is not printed; the shell that runs the command has the address with it.
    store = shlex.quote(place) if place == tracking_uri else '"$MLFLOW_TRACKING_URI"'
    return f"mlflow ui --backend-store-uri {store}, then http://127.0.0.1:5000/{chart}"
