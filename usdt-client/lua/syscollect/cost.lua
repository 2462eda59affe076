--- What zones cost: `lua5.4 -e 'require "syscollect.cost"'`, and the same while somebody records:
-- `sudo syscollect record -- lua5.4 -e 'require "syscollect.cost"'`.
--
-- Medians and least of many rounds, nanoseconds a turn; each kind takes turns with the others, so
-- that what else runs meets them alike.

local syscollect = require "syscollect"
local zone, message, plot = syscollect.zone, syscollect.message, syscollect.plot
local wrap, traced_wrap = coroutine.wrap, syscollect.coroutine.wrap
local yield, clock = coroutine.yield, os.clock

local TURNS, ROUNDS = 4000, 101

local function identity(value)
  return value
end

local function forever()
  while true do
    yield()
  end
end

local step, traced_step = wrap(forever), traced_wrap(forever, "forever")

-- Each has a loop of its own, so that LuaJIT compiles each by itself.
local kinds = {
  { "empty turn of the loop", function(turns)
    for _ = 1, turns do end
  end },
  { "call of an empty function", function(turns)
    for turn = 1, turns do identity(turn) end
  end },
  { 'local z = zone("cost") z:close()', function(turns)
    for _ = 1, turns do
      local one = zone("cost")
      one:close()
    end
  end },
  { 'zone("cost", call, value)', function(turns)
    for turn = 1, turns do zone("cost", identity, turn) end
  end },
  { "the same with z:value(turn)", function(turns)
    for turn = 1, turns do
      local one = zone("cost")
      one:value(turn)
      one:close()
    end
  end },
  { 'plot("cost", turn)', function(turns)
    for turn = 1, turns do plot("cost", turn) end
  end },
  { 'message("cost")', function(turns)
    for _ = 1, turns do message("cost") end
  end },
  { "step of a coroutine", function(turns)
    for _ = 1, turns do step() end
  end },
  { "step of a traced one", function(turns)
    for _ = 1, turns do traced_step() end
  end },
}

-- Waits until the recorder has emptied the ring.
local function rest()
  if syscollect.enabled() then
    local till = clock() + 0.02
    while clock() < till do end
  end
end

-- The recorder comes to a program some milliseconds after it begins.
if arg and arg[0] and os.getenv("SYSCOLLECT_WAIT") then
  while not syscollect.enabled() do os.execute("sleep 0.05") end
  message("begins")
  os.execute("sleep 0.5")
end

local times = {}
for round = 1, ROUNDS do
  for index, kind in ipairs(kinds) do
    local start = clock()
    kind[2](TURNS)
    times[index] = times[index] or {}
    times[index][round] = (clock() - start) / TURNS * 1e9
    rest()
  end
end

local jit = rawget(_G, "jit")
print(("%s, %s: %d rounds of %d turns, ns a turn"):format(jit and jit.version or _VERSION,
  syscollect.enabled() and "while somebody records" or "while nobody records", ROUNDS, TURNS))
print(("%-38s%10s%10s"):format("", "median", "least"))
for index, kind in ipairs(kinds) do
  table.sort(times[index])
  print(("%-38s%10.1f%10.1f"):format(kind[1], times[index][(ROUNDS + 1) / 2], times[index][1]))
end
