"""ClickHouse's HTTP interface before chdb, as far as Weir uses it: one session, one statement at a time.

usage: chdb-bridge.py [--cluster]   prints its port, and ends with its standard input

With --cluster it stands for a cluster of one shard with one replica: its macros and its remote_servers are those of
ClickHouse. Tables with replicas stay read-only in an embedded ClickHouse, so they are written as tables without, and
a replica is in sync where its table is there. An unknown database is created.
"""
import atexit
import json
import os
import re
import shutil
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb import session

CONFIG = """<clickhouse>
<tcp_port>9000</tcp_port><macros><shard>1</shard><replica>r1</replica></macros>
<remote_servers><weir><shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard></weir></remote_servers>
</clickhouse>"""
IS_CLUSTER = "--cluster" in sys.argv


def opened():
    if not IS_CLUSTER:
        return session.Session()
    folder = tempfile.mkdtemp(prefix="weir-chdb-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with open(f"{folder}/config.xml", "w") as file:
        file.write(CONFIG)
    return session.Session(f"{folder}/data?config-file={folder}/config.xml")


SESSION = opened()
LOCK = threading.Lock()
# Names of the address that are no settings.
PLAIN = {"query", "query_id", "database", "user", "password", "default_format", "session_id"}
REPLICATED = re.compile(r"ENGINE = Replicated(\w*MergeTree)\('[^']*', '[^']*'(?:, )?")
SYNC = re.compile(r"^SYSTEM SYNC REPLICA (.*?)(?: LIGHTWEIGHT)?$")
# Settings of the HTTP interface alone, and what would lock the session.
IGNORED = {"readonly", "wait_end_of_query", "buffer_size", "cancel_http_readonly_queries_on_client_close"}
INSERT = re.compile(rb"^\s*INSERT\s.*\sFORMAT\s+(\w+)\s*$", re.I | re.S)
FORMAT = re.compile(r"\sFORMAT\s+(\w+)\s*$", re.I)
# Without wait_end_of_query they are sent as they are made.
STREAMED = {"ArrowStream", "Parquet"}
applied = {}
database = "default"


def use(name):
    global database
    if name != database:
        SESSION.query(f"CREATE DATABASE IF NOT EXISTS {name}")
        SESSION.query(f"USE {name}")
        database = name


def without_replicas(sql):
    return SYNC.sub(r"SELECT 1 FROM \1 WHERE 0", REPLICATED.sub(r"ENGINE = \1(", sql))


def apply(settings):
    """Sets what differs from the last statement, and sets back what it had and this one has not."""
    for name in [name for name in applied if name not in settings]:
        SESSION.query(f"SET {name} = DEFAULT")
        del applied[name]
    for name, value in settings.items():
        if applied.get(name) != value:
            SESSION.query(f"SET {name} = '{value}'")
            applied[name] = value


def insert(query, body):
    """Rows that follow their statement: chdb reads them from a file."""
    name = INSERT.match(query).group(1).decode()
    head = query[: query.upper().rindex(b"FORMAT")].decode()
    with tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        return SESSION.query(f"{head} FROM INFILE '{file.name}' FORMAT {name}")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # else the body waits for the acknowledgement of the headers
    disable_nagle_algorithm = True

    def do_POST(self):
        fields = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        query = fields.get("query", "").encode()
        names = [name for name in fields if name not in PLAIN | IGNORED and not name.startswith("param_")]
        parameters = {name[6:]: value for name, value in fields.items() if name.startswith("param_")}
        try:
            with LOCK:
                if IS_CLUSTER:
                    use(fields.get("database", "default"))
                    names = [name for name in names if not name.startswith("insert_quorum")]
                apply({name: fields[name] for name in names})
                if query and INSERT.match(query):
                    result = insert(query, body)
                else:
                    sql = (query + b"\n" + body).decode()
                    if IS_CLUSTER:
                        sql = without_replicas(sql.strip())
                    written = FORMAT.search(sql)
                    form = written.group(1) if written else "TabSeparated"
                    if form in STREAMED and "wait_end_of_query" not in fields:
                        return self.stream(FORMAT.sub("", sql), form, parameters)
                    result = SESSION.query(FORMAT.sub("", sql), form, params=parameters)
            summary = {"read_rows": str(result.rows_read()), "read_bytes": str(result.bytes_read())}
            self.answer(200, result.bytes() or b"", {"X-ClickHouse-Summary": json.dumps(summary)})
        except Exception as error:  # chdb has no classes of errors
            with LOCK:
                SESSION.query("SELECT 1")  # the next answer would begin with what this one had
            self.fail(str(error))

    def stream(self, sql, form, parameters):
        """Sends an answer through a named pipe, and an exception at its place, as servers before 25.11 do."""
        folder = tempfile.mkdtemp()
        pipe = os.path.join(folder, "answer")
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(pipe, os.O_WRONLY)
        os.set_blocking(reader, True)
        failed = []

        def run():
            try:
                SESSION.query(f"{sql} INTO OUTFILE '{pipe}' APPEND FORMAT {form}", params=parameters)
            except Exception as error:
                failed.append(str(error))
                SESSION.query("SELECT 1")
            os.close(writer)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            begun = False
            while piece := os.read(reader, 65536):
                if not begun:
                    self.send_response(200)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                begun = True
                self.chunk(piece)
            if failed and not begun:
                return self.fail(failed[0])
            if failed:
                self.chunk(failed[0].encode())
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True  # the client went
        finally:
            os.close(reader)
            thread.join()
            shutil.rmtree(folder)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def fail(self, text):
        code = re.search(r"Code: (\d+)", text)
        self.answer(500, text.encode(), {"X-ClickHouse-Exception-Code": code.group(1) if code else "0"})

    def do_GET(self):
        self.do_POST()

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client may go before its answer comes."""


server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
atexit._run_exitfuncs()  # chdb itself does not always end
os._exit(0)
