"""ClickHouse's HTTP interface before chdb, as far as Weir uses it."""
import json
import os
import queue
import re
import shutil
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

# Names of the address that are no settings.
PLAIN = {"query", "query_id", "database", "user", "password", "default_format", "session_id"}
# Settings of the HTTP interface alone, and what would lock the session.
IGNORED = {"readonly", "wait_end_of_query", "buffer_size", "cancel_http_readonly_queries_on_client_close"}
INSERT = re.compile(rb"^\s*INSERT\s.*\sFORMAT\s+(\w+)\s*$", re.I | re.S)
FORMAT = re.compile(r"\sFORMAT\s+(\w+)\s*$", re.I)
# Without wait_end_of_query they are sent as they are made.
STREAMED = {"ArrowStream", "Parquet"}


class Connection:
    """One statement at a time, with the settings and the database of its request."""

    def __init__(self, session):
        self.session = session
        self.applied = {}
        self.database = "default"

    def query(self, sql, form="TabSeparated", parameters=None):
        return self.session.query(sql, form, params=parameters or {})

    def prepare(self, database, settings):
        """An unknown database is created. Sets what differs from the last statement, and sets back what that had."""
        if database != self.database:
            self.query(f"CREATE DATABASE IF NOT EXISTS {database}")
            self.query(f"USE {database}")
            self.database = database
        for name in [name for name in self.applied if name not in settings]:
            self.query(f"SET {name} = DEFAULT")
            del self.applied[name]
        for name, value in settings.items():
            if self.applied.get(name) != value:
                self.query(f"SET {name} = '{value}'")
                self.applied[name] = value

    def insert(self, query, body):
        """Rows that follow their statement: chdb reads them from a file."""
        name = INSERT.match(query).group(1).decode()
        head = query[: query.upper().rindex(b"FORMAT")].decode()
        with tempfile.NamedTemporaryFile() as file:
            file.write(body)
            file.flush()
            return self.query(f"{head} FROM INFILE '{file.name}' FORMAT {name}")

    def recover(self):
        """After an error: the next answer would begin with what this one had."""
        self.query("SELECT 1")


class Base(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # else the body waits for the acknowledgement of the headers
    disable_nagle_algorithm = True

    def do_GET(self):
        self.do_POST()

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while length := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(length))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def fail(self, text):
        code = re.search(r"Code: (\d+)", text)
        self.answer(500, text.encode(), {"X-ClickHouse-Exception-Code": code.group(1) if code else "0"})

    def log_message(self, *_):
        pass


class Statements(Base):
    """A subclass has `connections`, and may change statements and leave out settings."""

    connections: queue.LifoQueue

    def rewritten(self, sql):
        return sql

    def is_setting(self, name):
        return name not in PLAIN | IGNORED and not name.startswith("param_")

    def do_POST(self):
        fields = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self.body()
        query = fields.get("query", "").encode()
        settings = {name: value for name, value in fields.items() if self.is_setting(name)}
        parameters = {name[6:]: value for name, value in fields.items() if name.startswith("param_")}
        connection = self.connections.get()
        try:
            connection.prepare(fields.get("database", "default"), settings)
            if query and INSERT.match(query):
                result = connection.insert(query, body)
            else:
                sql = self.rewritten((query + b"\n" + body).decode().strip())
                written = FORMAT.search(sql)
                form = written.group(1) if written else "TabSeparated"
                if form in STREAMED and "wait_end_of_query" not in fields:
                    return self.stream(connection, FORMAT.sub("", sql), form, parameters)
                result = connection.query(FORMAT.sub("", sql), form, parameters)
            summary = {"read_rows": str(result.rows_read()), "read_bytes": str(result.bytes_read())}
            self.answer(200, result.bytes() or b"", {"X-ClickHouse-Summary": json.dumps(summary)})
        except OSError:
            self.close_connection = True  # the client went
        except Exception as error:  # chdb has no classes of errors
            connection.recover()
            self.fail(str(error))
        finally:
            self.connections.put(connection)

    def stream(self, connection, sql, form, parameters):
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
                connection.query(f"{sql} INTO OUTFILE '{pipe}' APPEND FORMAT {form}", parameters=parameters)
            except Exception as error:
                failed.append(str(error))
                connection.recover()
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
        finally:
            os.close(reader)
            thread.join()
            shutil.rmtree(folder)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        """A client may go before its answer comes."""


def serve(port, handler):
    """Listens on loopback. Returns the port."""
    server = Server(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def pool(connections):
    filled = queue.LifoQueue()
    for connection in connections:
        filled.put(connection)
    return filled
