"""What was asked for while Kafka did not answer, and was refused for it, must not come about later."""

import asyncio
import secrets

import pytest
from faultlab.servers import Lab

from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.errors import BrokerError
from tidings_connect.herder.herder import Herder
from tidings_connect.storage.records import PAUSED, STOPPED
from tidings_service import Health
from tidings_stack.capture import JSON_CONVERTER


@pytest.mark.stack
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore:list_groups")  # the only call that tells a group's protocol
def test_a_pause_that_could_not_be_written_does_not_undo_what_is_asked_for_after_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka goes on sending a record although nobody waits for it any more."""
    group = f"late-{secrets.token_hex(3)}"
    kinds = ("config", "offset", "status")
    worker = read_worker_config(
        {
            "bootstrap.servers": lab.kafka.proxied,
            "group.id": group,
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in kinds},
            **{f"{kind}.storage.replication.factor": "1" for kind in kinds},
            "offset.storage.partitions": "1",
            "session.timeout.ms": "120000",  # it goes on leading, however slow the machine is
        }
    )

    async def run() -> str:
        supervisor = Herder(worker, "127.0.0.1:1", Health(), log_level="INFO", log_format="json")
        await supervisor.start()
        assert supervisor.storage is not None
        configs = supervisor.storage.configs
        try:
            await supervisor.put("c", {"connector.class": "PostgresConnector"}, state=STOPPED)
            with monkeypatch.context() as patch:
                patch.setattr("tidings_connect.kafka.producer._REQUEST_SECONDS", 0.5)
                lab.kafka_proxy.hold()
                with pytest.raises(BrokerError):
                    await asyncio.to_thread(configs.put_target_state, "c", PAUSED)
                with pytest.raises(BrokerError):  # it is not known what the state is
                    await supervisor.set_target("c", STOPPED)
            lab.kafka_proxy.heal()
            await supervisor.set_target("c", STOPPED)
            await supervisor.storage.settle()
            return supervisor.connectors["c"].target_state
        finally:
            lab.kafka_proxy.heal()
            await supervisor.stop()

    assert asyncio.run(run()) == STOPPED
