"""Views of the experiment that need no set-up, kept where MLflow's Share button keeps views: in its tags.

`#/experiments/ID/runs?workflowType=machine_learning&viewStateShareKey=curricula` lists curricula,
`...=stages` their stages; with `&compareRunsMode=CHART` the first charts both rates by stage, a line a
curriculum.
"""

import json

_RATES = ("valid", "optimal")


def _view(
    level: str, params: tuple[str, ...], order: str, ascending: bool, tags: tuple[str, ...] = ()
) -> str:
    columns = (
        [f"params.`{name}`" for name in params]
        + [f"tags.`{name}`" for name in tags]
        + [f"metrics.`{name}`" for name in _RATES]
    )
    # Ordered by time, stages would be folded away under their curricula.
    shown = {"selectedColumns": columns, "orderByKey": order, "orderByAsc": ascending}
    return json.dumps(
        {**shown, "searchFilter": f"tags.level = '{level}'", "chartsSearchFilter": "^(valid|optimal)$"}
    )


VIEWS = {
    "mlflow.sharedViewState.curricula": _view(
        "curriculum", ("variant", "engineer", "seed", "preset"), "metrics.`valid`", False
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
