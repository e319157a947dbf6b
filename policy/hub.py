"""Whether the Hugging Face hub has a model: asked before anything is started."""

from pathlib import Path

from envgen.errors import ModelError
from policy.checkpoints import resolve_model
from policy.folder import CONFIG

SECONDS = 5
"""Until the hub is taken to be out of reach."""
_ELSE = "a checkpoint directory needs no network"


def check_hub(name: str) -> None:
    """ModelError unless a model lies on this machine, or the hub says that it has its config.

    It is asked once, without the many attempts of a download. What is in the hub's cache needs no network.
    """
    if Path(resolve_model(name)).is_dir():
        return
    from httpx import HTTPError
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    try:
        if not isinstance(try_to_load_from_cache(name, CONFIG), str):
            get_hf_file_metadata(hf_hub_url(name, CONFIG), timeout=SECONDS)
    except HFValidationError:
        raise ModelError(
            f"{name}: is no directory here, and no hub id either; give tiny, a checkpoint directory, or a hub"
            " id such as Qwen/Qwen3-0.6B"
        ) from None
    except HfHubHTTPError as error:
        raise ModelError(
            f"{name}: the Hugging Face hub shows no such model (it answered {error.response.status_code});"
            f" check the name, and HF_TOKEN if it is private or has terms to accept; {_ELSE}"
        ) from None
    except (HTTPError, OfflineModeIsEnabled) as error:
        raise ModelError(
            f"{name}: is not in this machine's cache, and the Hugging Face hub cannot be asked"
            f" ({type(error).__name__}); check the network and HF_HUB_OFFLINE, or bring the model in with"
            f" hf download {name}; {_ELSE}"
        ) from None
