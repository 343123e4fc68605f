"""Read a pool's live rows in Python: python examples/read_pool.py http://127.0.0.1:8420 events APP_ID SECRET

pip install pyarrow polars duckdb
"""
import base64
import sys
import urllib.request

if len(sys.argv) != 5:
    sys.exit("usage: python examples/read_pool.py <url of Weir> <pool> <client id> <client secret>")

import duckdb
import polars
import pyarrow

base, pool, client_id, secret = sys.argv[1:5]
basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
request = urllib.request.Request(f"{base}/v1/pools/{pool}/arrow", headers={"Authorization": f"Basic {basic}"})

# pyarrow: batch by batch, as they come. What breaks off in the middle raises.
with urllib.request.urlopen(request) as answer:
    rows = sum(batch.num_rows for batch in pyarrow.ipc.open_stream(answer))
print("pyarrow", rows)

# Polars
frame = polars.read_ipc_stream(urllib.request.urlopen(request).read())
print("polars", frame.height)

# DuckDB, over the batches of pyarrow
live_rows = pyarrow.ipc.open_stream(urllib.request.urlopen(request)).read_all()
print("duckdb", duckdb.sql("SELECT count(*) FROM live_rows").fetchall())
