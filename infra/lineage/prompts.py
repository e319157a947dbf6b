"""Versioned prompts: a new version if and only if the text is new."""

from mlflow.entities.model_registry import PromptVersion

from engineer.prompt import template_text
from engineer.spec import Wording
from envgen.files import digest
from infra.lineage.checkpoint_tags import DIGEST
from infra.lineage.recorder import Recorder
from infra.lineage.registry import registry_name


def prompt_version(
    recorder: Recorder, wording: Wording, variant: str, recorded: dict[str, str] | None = None
) -> PromptVersion:
    """The version of the prompt `envwright-<wording>-<variant>` that has the text of the templates.

    It is registered if there is none. `recorded` holds `prompt` and `prompt_version` if they were recorded
    before; they stay, whatever the templates are today.
    """
    if recorded and (
        known := recorder.client.get_prompt_version(recorded["prompt"], recorded["prompt_version"])
    ):
        return known
    name, text = registry_name(f"{wording}-{variant}"), template_text(variant, wording)
    sha = digest(text)
    # Without the condition on `mlflow.prompt.is_prompt` MLflow leaves prompts out.
    wanted = f"name = '{name}' AND tags.`{DIGEST}` = '{sha}' AND tags.`mlflow.prompt.is_prompt` = 'true'"
    for found in recorder.client.search_model_versions(wanted):
        version = recorder.client.get_prompt_version(name, found.version)
        assert version is not None  # it was just found
        return version
    facts = {DIGEST: sha, "wording": wording, "variant": variant}
    return recorder.client.register_prompt(
        name, text, commit_message=f"Design question, context {variant}, {wording} wording", tags=facts
    )
