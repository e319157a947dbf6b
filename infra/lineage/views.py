"""Views of the experiment that need no set-up, kept where MLflow's Share button keeps views: in its tags.

`#/experiments/ID/runs?workflowType=machine_learning&viewStateShareKey=curricula` lists curricula,
`...=stages` their stages; with `&compareRunsMode=CHART` the first charts both rates by stage, a line a
curriculum, and `...=engineers` a line an engineer variant, the mean over its seeds.
"""

import json

_RATES = ("valid", "optimal")


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
    if grouped:
        keys = [{"mode": "param", "groupByData": grouped}]
        shown["groupBy"] = {"aggregateFunction": "average", "groupByKeys": keys}
    return json.dumps(
        {**shown, "searchFilter": f"tags.level = '{level}'", "chartsSearchFilter": "^(valid|optimal)$"}
    )


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
