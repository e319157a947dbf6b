"""Messages about runs that end badly or wait for approval: a webhook and two automations on the Prefect
server."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.events.schemas.automations import AutomationCore
from pydantic import SecretStr

from envgen.errors import ConfigError
from infra.serving.deploy import check_server

TEMPLATE = Path(__file__).parent / "automations.yaml"
BLOCK = "envwright-notify"


def notify(url: str, say: Callable[[str], None]) -> None:
    """Let the server call `url` with a JSON text; the same call again changes where to. ConfigError if no
    server answers."""
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise ConfigError(f"{url!r}: expected the address of a webhook, as https://hooks.example.org/abc")
    check_server()
    block = Webhook(url=SecretStr(url)).save(BLOCK, overwrite=True)
    with get_client(sync_client=True) as client:
        for spec in yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))["automations"]:
            actions = [{**action, "block_document_id": str(block)} for action in spec["actions"]]
            say(_ensure(client, AutomationCore.model_validate({**spec, "actions": actions})))


def _ensure(client: SyncPrefectClient, wanted: AutomationCore) -> str:
    known = client.read_automations_by_name(wanted.name)
    if known:
        client.update_automation(known[0].id, wanted)
    else:
        client.create_automation(wanted)
    return f"automation {wanted.name}: {'updated' if known else 'made'}"
