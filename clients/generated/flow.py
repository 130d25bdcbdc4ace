"""Uses a client that openapi-python-client made: put, reserve, ack, list, batches and a problem.

Arguments: the address of the server. The generated package is `generated`, on the path.
"""

import sys

from generated import Client
from generated.api.batches import put_jobs
from generated.api.jobs import get_job, list_jobs, put_job
from generated.api.queues import get_queue, patch_settings
from generated.api.system import get_stats
from generated.api.workers import ack_job, reserve_jobs
from generated.models import (
    AckRequest,
    JobState,
    Keep,
    Problem,
    PutOutcome,
    PutRequest,
    PutRequestBatch,
    QueueSettingsPatch,
    ReserveRequest,
    RetentionPatch,
)

client = Client(base_url=sys.argv[1], httpx_args={"trust_env": False})

retention = RetentionPatch(done=Keep(count=10))
queue = patch_settings.sync("orders", client=client, body=QueueSettingsPatch(retention=retention))
assert queue.name == "orders" and queue.settings.retention.done.count == 10, queue

put = put_job.sync("orders", client=client, body=PutRequest(payload={"order": 42}, key="order-42"))
assert put.outcome == PutOutcome.CREATED, put
batch = PutRequestBatch(items=[PutRequest(queue="orders", text="later", delay="1h"), PutRequest(queue="orders")])
later, refused = put_jobs.sync(client=client, body=batch).results
assert later.ok.queue == "orders" and refused.error.status == 422, (later, refused)

[delivery] = reserve_jobs.sync("orders", client=client, body=ReserveRequest(lease="1m", worker="generated")).deliveries
assert delivery.job.id == put.id and delivery.job.payload == {"order": 42}, delivery
acked = ack_job.sync(put.id, client=client, body=AckRequest(token=delivery.token, result={"closed": True}))
assert acked.state == JobState.DONE, acked

job = get_job.sync(put.id, client=client)
assert job.result == {"closed": True} and job.history[0].worker == "generated", job
page = list_jobs.sync("orders", client=client, state=JobState.SCHEDULED)
assert [job.text for job in page.jobs] == ["later"], page
assert get_queue.sync("orders", client=client).jobs.done == 1
assert get_stats.sync(client=client, since="5m").recent.acked == 1
missing = get_queue.sync("nothing", client=client)
assert isinstance(missing, Problem) and missing.status == 404, missing
print("the generated Python client works")
