-- wrk script: post a chat completion over and over, print the outcome as one line "RESULT {json}".
-- Called by tests/bench/load.py, which sets BENCH_BODY (the request body), BENCH_HEADERS ("name: value" lines)
-- and BENCH_KEYS (API keys, one a line, used in turn). For a stream, latency is the time to the last byte.

wrk.method = "POST"
wrk.body = os.getenv("BENCH_BODY")
for line in string.gmatch(os.getenv("BENCH_HEADERS"), "[^\n]+") do
  local name, value = string.match(line, "^([^:]+): (.*)$")
  wrk.headers[name] = value
end

local requests = {}
local turn = 0

function init(arguments)
  for key in string.gmatch(os.getenv("BENCH_KEYS"), "[^\n]+") do
    wrk.headers["Authorization"] = "Bearer " .. key
    requests[#requests + 1] = wrk.format()
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\nRESULT {"requests":%d,"seconds":%.6f,"p50_ms":%.4f,"p99_ms":%.4f,"bad_status":%d,"socket_errors":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
