--- What zones cost: `lua5.4 -e 'require "syscollect.cost"'`, and the same below
-- `sudo syscollect record --`. Each round asks whether somebody records: recorders come and go.
--
-- Each kind takes turns with the others, so that what else runs meets them alike.

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
  local till = clock() + 0.02
  while clock() < till do end
end

-- Of each kind, nanoseconds a turn: while nobody records, and while somebody does.
local off, on = {}, {}
for index in ipairs(kinds) do
  off[index], on[index] = {}, {}
end

local function measure(index, call)
  local was_recorded = syscollect.enabled()
  local start = clock()
  call(TURNS)
  local time = (clock() - start) / TURNS * 1e9
  if was_recorded == syscollect.enabled() then
    local times = (was_recorded and on or off)[index]
    times[#times + 1] = time
  end
  if was_recorded then
    rest()
  end
end

for _ = 1, ROUNDS do
  for index, kind in ipairs(kinds) do
    measure(index, kind[2])
  end
end

local function shown(times)
  table.sort(times)
  if #times < ROUNDS / 10 then
    return ("%10s%10s"):format("-", "-")
  end
  return ("%10.1f%10.1f"):format(times[math.floor((#times + 1) / 2)], times[1])
end

local jit = rawget(_G, "jit")
print(("%s: %d rounds of %d turns, nanoseconds a turn"):format(jit and jit.version or _VERSION,
  ROUNDS, TURNS))
print(("%-34s%20s%20s"):format("", "nobody records", "somebody records"))
print(("%-34s%10s%10s%10s%10s"):format("", "median", "least", "median", "least"))
for index, kind in ipairs(kinds) do
  print(("%-34s%s%s"):format(kind[1], shown(off[index]), shown(on[index])))
end
