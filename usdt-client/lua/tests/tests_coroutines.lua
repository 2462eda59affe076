-- Coroutines that wait within zones.

local syscollect = require "syscollect"
local zone = syscollect.zone

return function(check)
  local cases, testing = {}, check.testing
  local traced = syscollect.coroutine

  function cases.a_life_is_an_async_zone_and_steps_are_zones()
    local co = traced.create(function(a)
      local within = zone("within")
      local b = coroutine.yield(a + 1)
      within:close()
      return b * 2
    end, "worker")
    local _, first = traced.resume(co, 1)
    check.equal(first, 2)
    local between = zone("between")
    between:close()
    local good, second = traced.resume(co, 5)
    check.equal(good, true)
    check.equal(second, 10)
    check.equal(coroutine.status(co), "dead")
    check.equal(traced.resume(co), false)
    check.recorded("async worker", "begin worker at 0", "begin within at 1", "end 1", "end 0",
      "begin between at 0", "end 0",
      "begin worker at 0", "begin within at 1", "end 1", "end 0", "async end")
  end

  function cases.wrapped()
    local step = traced.wrap(function(...)
      local got = { ... }
      for number = 1, 2 do
        got[#got + 1] = coroutine.yield(number)
      end
      return (unpack or table.unpack)(got)
    end, "counted")
    check.equal(step("a"), 1)
    check.equal(step("b"), 2)
    local a, b, c = step("c")
    check.equal(a .. b .. c, "abc")
    check.fails("dead coroutine", step)
    local lines = check.lines()
    check.equal(check.count(lines, "^async counted"), 1)
    check.equal(check.count(lines, "^begin counted at 0"), 3)
    check.equal(check.count(lines, "^async end"), 1)
  end

  function cases.without_a_name_it_has_that_of_its_function()
    local line = debug.getinfo(1, "l").currentline + 1
    local step = traced.wrap(function() coroutine.yield() end)
    step()
    step()
    local co = coroutine.create(function() coroutine.yield() end)
    coroutine.resume(co)
    traced.resume(co)
    local lines = check.lines()
    check.has(lines, "^async function <tests_coroutines.lua:" .. line .. ">$")
    check.has(lines, "^async function <tests_coroutines.lua:" .. line + 3 .. ">$")
  end

  function cases.an_error_ends_it_and_is_named()
    local co = traced.create(function()
      local _ = zone("inner")
      error("broken", 0)
    end, "fails")
    local good, message = traced.resume(co)
    check.equal(good, false)
    check.equal(message, "broken")
    check.recorded("async fails", "begin fails at 0", "begin inner at 1", "end 1", "text broken",
      "end 0", "async end")
    local step = traced.wrap(function() error("broken", 0) end, "fails, too")
    local wrapped, other = pcall(function() step() end)
    check.equal(wrapped, false)
    check.has({ other }, "broken$")
    local object = {}
    step = traced.wrap(function() error(object) end)
    local _, same = pcall(step)
    check.equal(same, object)
  end

  function cases.many_of_them_take_turns()
    local threads = {}
    for number = 1, 10 do
      threads[number] = traced.create(function()
        for turn = 1, 5 do
          local outer = zone("outer")
          coroutine.yield()
          zone("inner", function() return turn end)
          coroutine.yield()
          outer:close()
        end
      end, "worker " .. number)
    end
    local left = true
    while left do
      left = false
      for _, co in ipairs(threads) do
        if coroutine.status(co) ~= "dead" then
          left = true
          assert(traced.resume(co))
        end
      end
    end
    local lines = check.lines()
    check.equal(check.count(lines, "^async worker"), 10)
    check.equal(check.count(lines, "^async end"), 10)
    check.equal(check.count(lines, "^begin inner at 2"), 50)
    -- Each of five in three steps.
    check.equal(check.count(lines, "^begin outer at 1"), 10 * 5 * 3)
    local depth = 0
    for _, line in ipairs(lines) do
      local begun, ended = line:match("^begin .* at (%d+)$"), line:match("^end (%d+)$")
      if begun then
        check.equal(tonumber(begun), depth)
        depth = depth + 1
      elseif ended then
        depth = tonumber(ended)
      end
    end
    check.equal(depth, 0)
  end

  function cases.a_zone_that_another_closes_while_its_coroutine_waits()
    local inner
    local co = traced.create(function()
      inner = zone("inner")
      coroutine.yield()
      zone("later"):close()
    end, "owner")
    traced.resume(co)
    inner:close()
    traced.resume(co)
    check.recorded("async owner", "begin owner at 0", "begin inner at 1", "end 1", "end 0",
      "begin owner at 0", "begin later at 1", "end 1", "end 0", "async end")
  end

  function cases.one_within_another()
    local inner = traced.wrap(function()
      local one = zone("of the inner")
      coroutine.yield()
      one:close()
    end, "inner")
    local outer = traced.wrap(function()
      local one = zone("of the outer")
      inner()
      coroutine.yield()
      inner()
      one:close()
    end, "outer")
    outer()
    outer()
    check.recorded("async outer", "begin outer at 0", "begin of the outer at 1",
      "async inner", "begin inner at 2", "begin of the inner at 3", "end 3", "end 2", "end 1",
      "end 0",
      "begin outer at 0", "begin of the outer at 1",
      "begin inner at 2", "begin of the inner at 3", "end 3", "end 2", "async end",
      "end 1", "end 0", "async end")
  end

  function cases.a_function_that_waits_within_a_zone()
    local step = traced.wrap(function()
      return zone("call", function(a)
        local b = coroutine.yield(a)
        return a + b
      end, 1)
    end, "waits")
    check.equal(step(), 1)
    check.equal(step(2), 3)
    check.recorded("async waits", "begin waits at 0", "begin call at 1", "end 1", "end 0",
      "begin waits at 0", "begin call at 1", "end 1", "end 0", "async end")
  end

  function cases.the_same_without_tracing_ends_nobody_elses()
    local step = coroutine.wrap(function()
      return zone("in a coroutine", function(a)
        return a + coroutine.yield(a)
      end, 1)
    end)
    step()
    local outer = zone("outer")
    check.equal(step(2), 3)
    outer:close()
    zone("after"):close()
    check.recorded("begin in a coroutine at 0", "begin outer at 1", "end 0", "begin after at 0",
      "end 0")
  end

  function cases.one_that_is_forgotten()
    local step = traced.wrap(function()
      local _ = zone("inner")
      coroutine.yield()
    end, "forgotten")
    step()
    step = nil
    collectgarbage()
    collectgarbage()
    check.equal(check.count(check.lines(), "^async end"), 1)
  end

  function cases.one_that_is_closed()
    if not coroutine.close then return end
    local co = traced.create(load [[
      local zone = ...
      local one <close> = zone("one")
      coroutine.yield()
    ]], "closed")
    traced.resume(co, zone)
    check.equal(traced.close(co), true)
    check.recorded("async closed", "begin closed at 0", "begin one at 1", "end 1", "end 0",
      "begin closed at 0", "begin one at 1", "end 1", "end 0", "async end")
    check.equal(traced.close(co), true)
    check.recorded()
  end

  function cases.the_library_itself()
    local create = coroutine.create
    syscollect.trace_coroutines(true)
    syscollect.trace_coroutines(true)
    check.equal(coroutine.create, traced.create)
    coroutine.wrap(function() zone("inner"):close() end)()
    syscollect.trace_coroutines(false)
    check.equal(coroutine.create, create)
    check.equal(check.count(check.lines(), "^async "), 2)
  end

  function cases.wrong_use_is_as_without_tracing()
    for _, library in ipairs { coroutine, traced } do
      check.fails("", library.create)
      check.fails("", library.wrap, 5)
      check.fails("", library.resume, 5)
      local running
      local co = library.create(function()
        running = { library.resume(running) }
        return running[1], running[2]
      end, 7)
      running = co
      local good, resumed, why = library.resume(co)
      check.equal(good, true)
      check.equal(resumed, false)
      check.has({ why }, "cannot resume")
    end
    testing.take()
  end

  function cases.a_recording_that_begins_and_ends_in_between()
    testing.lower()
    local co = traced.create(function()
      for number = 1, 4 do
        local one = zone("step")
        coroutine.yield()
        one:close()
      end
    end, "long")
    traced.resume(co)
    testing.raise()
    traced.resume(co)
    traced.resume(co)
    testing.lower()
    traced.resume(co)
    traced.resume(co)
    check.equal(coroutine.status(co), "dead")
    testing.raise()
    testing.take()
    zone("after"):close()
    check.recorded("begin after at 0", "end 0")
  end

  return cases
end
