--- Zones, messages, plots and frames of Lua programs, for the profiler syscollect.
--
--     local syscollect = require "syscollect"
--     local zone = syscollect.zone
--
--     local load <close> = zone("load")        -- Lua 5.4: until the end of the block
--     local one = zone("one") ... one:close()
--     local tree = zone("parse", parse, text)  -- calls parse(text) within a zone
--
-- Nothing else is needed: `sudo syscollect` finds the program. README.md has the rest.

local core = require "syscollect.core"

local begin, fail, no_zone = core.begin, core.fail, core.no_zone
local enabled, open_zones = core.enabled, core.open_zones
local error, pcall, type = error, pcall, type
local create, resume, wrap = coroutine.create, coroutine.resume, coroutine.wrap
local close, running, status = coroutine.close, coroutine.running, coroutine.status
local jit = rawget(_G, "jit")

-- Of Lua 5.1 to 5.3, pcall is a C function, of which some 200 may lie in each other: a program that
-- calls itself deeply must not fail because it is recorded.
local DEEPEST = 100

-- Calls a function and closes the zone, also where an error leaves it.
local within
if _VERSION >= "Lua 5.4" then
  -- The error passes with its traceback. Compiled here: other versions do not know the syntax.
  local source = debug.getinfo(1, "S").source
  within = load("return function(one, call, ...) local zone <close> = one return call(...) end",
    source)()
else
  local function ended(one, good, ...)
    if good then
      one:close()
      return ...
    end
    fail(one, (...))
    error((...), 0)
  end

  local function closed(one, ...)
    one:close()
    return ...
  end

  function within(one, call, ...)
    -- In a coroutine of Lua 5.1, what pcall calls could not yield.
    if jit or open_zones() < DEEPEST and (_VERSION ~= "Lua 5.1" or not running()) then
      return ended(one, pcall(call, ...))
    end
    return closed(one, call(...))
  end
end

-- With a name alone: a zone that is open. With a function: calls it with what follows.
-- (The zone's place is that of the caller of the function that calls `begin`, so it is no tail
-- call.)
local function zone(name, call, ...)
  local one = begin(name)
  if call == nil then
    return one
  end
  if one == no_zone then
    return call(...)
  end
  return within(one, call, ...)
end

local syscollect = {
  async_zone = core.async_zone,
  enabled = enabled,
  frame = core.frame,
  frame_image = core.frame_image,
  loop_turns = core.loop_turns,
  loop_waits = core.loop_waits,
  message = core.message,
  plot = core.plot,
  thread_name = core.thread_name,
}

-- LuaJIT compiles no calls of C functions of Lua, so its programs do without while nobody records.
-- What has wrong arguments goes the other way all the same, to its error.
local has_ffi, ffi = false, nil
if jit then
  has_ffi, ffi = pcall(require, "ffi")
end
if has_ffi then
  local is_enabled = ffi.cast("int (*)(void)", core.is_enabled)
  local methods = core.no_zone_methods
  local value, text, name, color = methods.value, methods.text, methods.name, methods.color
  local frame, message, plot = syscollect.frame, syscollect.message, syscollect.plot

  function enabled()
    return is_enabled() ~= 0
  end

  function zone(name, call, ...)
    if is_enabled() == 0 and type(name) == "string" then
      if call == nil then
        return no_zone
      end
      return call(...)
    end
    local one = begin(name)
    if call == nil then
      return one
    end
    return within(one, call, ...)
  end

  local function is_string_or_nil(what)
    return what == nil or type(what) == "string"
  end

  local function is_color(what)
    return type(what) == "number" and what >= 0 and what <= 0xffffff
  end

  function syscollect.frame(name)
    if is_enabled() ~= 0 or not is_string_or_nil(name) then
      return frame(name)
    end
  end

  function syscollect.message(text, color)
    if is_enabled() ~= 0 or type(text) ~= "string" or color ~= nil and not is_color(color) then
      return message(text, color)
    end
  end

  function syscollect.plot(name, number, unit)
    if is_enabled() ~= 0 or type(name) ~= "string" or type(number) ~= "number"
      or not is_string_or_nil(unit) then
      return plot(name, number, unit)
    end
  end

  function methods.close() end

  function methods:text(words)
    if self ~= no_zone or type(words) ~= "string" then
      return text(self, words)
    end
  end

  function methods:name(words)
    if self ~= no_zone or type(words) ~= "string" then
      return name(self, words)
    end
  end

  function methods:value(number, named)
    if self ~= no_zone or type(number) ~= "number" or not is_string_or_nil(named) then
      return value(self, number, named)
    end
  end

  function methods:color(rgb)
    if self ~= no_zone or not is_color(rgb) then
      return color(self, rgb)
    end
  end
end

syscollect.enabled = enabled
syscollect.zone = zone

-- Coroutines: what `coroutine` has, with each coroutine's life as an async zone, and each step of
-- it as a zone of the thread. ---------------------------------------------------------------------

local make_steps, step_begin, step_end = core.steps, core.step_begin, core.step_end
-- By coroutine; and the names that were given to them.
local known = setmetatable({}, { __mode = "k" })
local names = setmetatable({}, { __mode = "k" })
local traced = {}
for name, value in pairs(coroutine) do
  traced[name] = value
end

local function steps_of(co)
  local steps = known[co]
  if not steps then
    steps = make_steps(co, names[co])
    known[co] = steps
  end
  return steps
end

local function stepped(steps, co, good, ...)
  if good then
    step_end(steps, status(co) == "dead")
  else
    step_end(steps, true, (...))
  end
  return good, ...
end

function traced.create(call, name)
  local co = create(call)
  if type(name) == "string" then
    names[co] = name
  end
  return co
end

function traced.resume(co, ...)
  if type(co) == "thread" and (enabled() or known[co]) and status(co) == "suspended" then
    local steps = steps_of(co)
    step_begin(steps, co)
    return stepped(steps, co, resume(co, ...))
  end
  return resume(co, ...)
end

function traced.wrap(call, name)
  if type(call) ~= "function" then
    return wrap(call)
  end
  if type(name) ~= "string" then
    name = nil
  end
  local co, steps
  local step = wrap(function(...)
    co = running()
    return call(...)
  end)

  local function returned(good, ...)
    if good then
      step_end(steps, status(co) == "dead")
      return ...
    end
    step_end(steps, true, (...))
    -- Says where it was called, as the one that is replaced does.
    error((...), 2)
  end

  return function(...)
    if not steps and not enabled() or co and status(co) ~= "suspended" then
      return step(...)
    end
    steps = steps or make_steps(call, name)
    step_begin(steps, co)
    return returned(pcall(step, ...))
  end
end

if close then
  local function closed(steps, good, ...)
    step_end(steps, true, (...))
    return good, ...
  end

  function traced.close(co)
    local steps = known[co]
    if steps and status(co) == "suspended" then
      step_begin(steps, co)
      return closed(steps, close(co))
    end
    return close(co)
  end
end

local originals = { close = close, create = create, resume = resume, wrap = wrap }

-- Puts them into `coroutine`, or takes them away, where nobody else has put others.
function syscollect.trace_coroutines(on)
  for name, original in pairs(originals) do
    local from, to = original, traced[name]
    if on == false then
      from, to = to, from
    end
    if coroutine[name] == from then
      coroutine[name] = to
    end
  end
end

syscollect.coroutine = traced

-- All functions. ----------------------------------------------------------------------------------

core.own_function(zone)
local compiles = false

function syscollect.trace_functions(on)
  on = on ~= false
  core.trace_functions(on)
  syscollect.trace_coroutines(on)
  -- Compiled code calls no hooks.
  if jit and on then
    compiles = compiles or jit.status()
    jit.off()
    jit.flush()
  elseif jit and compiles then
    compiles = false
    jit.on()
  end
end

return syscollect
