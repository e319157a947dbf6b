"""The tool that runs many stages in one process: what it takes for growth."""

import pytest
from soak import Held, growing, table

FLAT = [Held(600 + 5 * (stage % 3), 31 + stage % 2, 1, 10**6, 10**6, 350.0) for stage in range(30)]


def test_what_comes_and_goes_and_databases_are_no_growth():
    loading = [one._replace(memory=60.0 * stage, descriptors=3 * stage) for stage, one in enumerate(FLAT[:9])]
    filling = [one._replace(mlflow=10**6 * stage, prefect=10**7 * stage) for stage, one in enumerate(FLAT)]
    assert growing(filling) == []
    assert growing([*loading, *FLAT[9:]]) == []


@pytest.mark.parametrize(("what", "a_stage"), [("memory", 2.5), ("descriptors", 0.5), ("temporary", 0.5)])
def test_what_grows_with_every_stage_is_named(what: str, a_stage: float):
    leaking = [
        one._replace(**{what: getattr(FLAT[0], what) + a_stage * stage}) for stage, one in enumerate(FLAT)
    ]
    [problem] = growing(leaking)
    assert problem.startswith(f"{what}: ")
    assert problem.endswith("in 20 stages")


def test_the_table_has_some_stages_and_the_growth_of_the_databases():
    filling = [one._replace(mlflow=1024 * stage, prefect=20_480 * stage) for stage, one in enumerate(FLAT)]
    *rows, _, said = table(filling).splitlines()
    assert [row.split(" ")[1] for row in rows[2:]] == ["1", "10", "20", "30"]
    assert said == "MLflow's database grows by 1 KiB a stage, Prefect's by 20 KiB."
