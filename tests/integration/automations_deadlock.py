"""A Prefect server on SQLite that makes an automation while its lock of the automations is taken; `fixed` or
`as-is` as the argument. Prints 201 if it gets an answer."""

import asyncio
import os
import sys

# Only this process's own code may hold the lock.
os.environ["PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED"] = "false"

import httpx
from prefect.events.schemas.automations import AutomationCore
from prefect.server.api.server import create_app
from prefect.server.events import triggers

from infra.serving.prefect_server import update_automations_without_deadlock

SPEC = {
    "name": "an automation",
    "trigger": {"type": "event", "posture": "Reactive", "threshold": 1, "within": 0, "expect": ["anything"]},
    "actions": [{"type": "do-nothing"}],
}


async def main() -> None:
    app = create_app(final=True)
    async with app.router.lifespan_context(app):
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server/api")
        lock = triggers._automations_lock()
        async with client:
            await lock.acquire()
            body = AutomationCore.model_validate(SPEC).model_dump(mode="json")
            asyncio.get_running_loop().call_later(1, lock.release)
            answer = await client.post("/automations/", json=body)
            assert answer.status_code == 201, answer.text
            async with asyncio.timeout(20):
                while not triggers.automations_by_id:
                    await asyncio.sleep(0.05)
    print(answer.status_code)


if __name__ == "__main__":
    if sys.argv[1] == "fixed":
        update_automations_without_deadlock()
    asyncio.run(main())
