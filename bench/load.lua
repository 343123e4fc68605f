-- wrk script: bodies of N events, every id distinct over the whole run.
--
-- WEIR_BENCH_TEMPLATE names a file: a body with "\1" in place of each id and "\2" in place of each time.
-- An id is a producer (8 digits, by thread) and a rising number (12 digits). All events of a request have one
-- time, a millisecond after the last request's. The rest of the body stays, so a request costs little more
-- than a copy.
local threads = 0

function setup(thread)
  thread:set("producer", tonumber(os.getenv("WEIR_BENCH_PRODUCER") or "0") * 100 + threads)
  threads = threads + 1
end

function init(args)
  local file = io.open(os.getenv("WEIR_BENCH_TEMPLATE"), "rb")
  local text = file:read("*a")
  file:close()
  out = {}
  ids = {}
  times = {}
  for piece, place in (text .. "\3"):gmatch("([^\1\2\3]*)([\1\2\3])") do
    out[#out + 1] = piece
    if place == "\1" then ids[#ids + 1] = #out + 1 end
    if place == "\2" then times[#times + 1] = #out + 1 end
    if place ~= "\3" then out[#out + 1] = "" end
  end
  prefix = string.format("%08d", producer)
  counter = 0
  sent = 0
  base = os.time()
  path = os.getenv("WEIR_BENCH_PATH")
  local length = #text + #ids * 19 + #times * 23
  head = "POST " .. path .. " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " .. length .. "\r\n\r\n"
  out[1] = head .. out[1]
end

function request()
  local time = os.date("!%Y-%m-%dT%H:%M:%S", base + math.floor(sent / 1000)) .. string.format(".%03dZ", sent % 1000)
  for i = 1, #times do out[times[i]] = time end
  for i = 1, #ids do
    out[ids[i]] = prefix .. string.format("%012d", counter)
    counter = counter + 1
  end
  sent = sent + 1
  return table.concat(out)
end

function done(summary, latency, requests)
  io.write(string.format(
    'RESULT {"requests":%d,"durationUs":%d,"bytes":%d,"errorsConnect":%d,"errorsRead":%d,"errorsWrite":%d,"errorsStatus":%d,"errorsTimeout":%d,"p50Us":%d,"p99Us":%d,"p999Us":%d,"maxUs":%d}\n',
    summary.requests, summary.duration, summary.bytes, summary.errors.connect, summary.errors.read, summary.errors.write,
    summary.errors.status, summary.errors.timeout, latency:percentile(50), latency:percentile(99), latency:percentile(99.9), latency.max))
end
