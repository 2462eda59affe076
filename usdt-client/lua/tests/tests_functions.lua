-- All functions, by Lua's hooks.

local syscollect = require "syscollect"
local zone = syscollect.zone

return function(check)
  local cases = {}

  -- Lines that begin or end a zone; functions by their names alone.
  local function traced(work, ...)
    syscollect.trace_functions(true)
    work(...)
    syscollect.trace_functions(false)
    local lines = {}
    for _, line in ipairs(check.lines()) do
      if not line:find("^async") then
        lines[#lines + 1] = line
      end
    end
    return lines
  end

  local function leaf() return 1 end

  function cases.calls_and_returns()
    local function outer()
      local a = leaf()
      local b = leaf()
      return a + b + math.abs(-1)
    end
    local function all()
      outer()
      leaf()
    end
    check.same(traced(all), { "begin work at 0", "begin outer at 1", "begin leaf at 2", "end 2",
      "begin leaf at 2", "end 2", "end 1", "begin leaf at 1", "end 1", "end 0" })
    all()
    check.recorded()
  end

  function cases.their_places()
    local line = debug.getinfo(1, "l").currentline + 1
    local function of_a_place() return 1 end
    traced(function() local _ = of_a_place() end)
    check.has(check.testing.locations(),
      "^of_a_place|of_a_place|tests/tests_functions.lua|" .. line .. "$")
  end

  function cases.errors_end_what_they_leave()
    local function fails() error("x") end
    local function through()
      fails()
      return 1
    end
    local function all()
      pcall(through)
      leaf()
    end
    local lines = traced(all)
    check.equal(check.count(lines, "^begin leaf at 1$"), 1)
    check.equal(check.count(lines, "^begin fails at 2$"), 1)
    check.equal(lines[#lines], "end 0")
  end

  function cases.recursion_that_an_error_leaves()
    local function down(depth)
      if depth == 0 then error("x") end
      down(depth - 1)
      return depth
    end
    local function all()
      pcall(down, 5)
      leaf()
    end
    check.equal(check.count(traced(all), "^begin leaf at 1$"), 1)
  end

  function cases.tail_calls()
    local function last() return leaf() end
    local function middle() return last() end
    local function all()
      for _ = 1, 3 do
        middle()
      end
      local _ = leaf()
    end
    local lines = traced(all)
    check.equal(check.count(lines, "^begin middle at 1$"), 3)
    check.equal(check.count(lines, "^begin "), 1 + 3 * 3 + 1)
    check.equal(check.count(lines, "^begin leaf at"), 4)
    check.has(lines, "^begin leaf at 1$")
    check.equal(lines[#lines], "end 0")
  end

  function cases.tail_calls_without_end()
    local one, other
    function one(left)
      if left == 0 then return 0 end
      return other(left - 1)
    end
    function other(left)
      return one(left)
    end
    local lines = traced(function() local _ = one(2000) end)
    local deepest = 0
    for _, line in ipairs(lines) do
      deepest = math.max(deepest, tonumber(line:match("^begin .* at (%d+)$") or 0))
    end
    assert(deepest < 40, deepest)
    check.equal(check.count(lines, "^begin one"), 2001)
  end

  function cases.zones_among_functions()
    local function work()
      local one = zone("by hand")
      leaf()
      one:close()
      zone("with a function", leaf)
      return 1
    end
    local lines = traced(function() local _ = work() end)
    check.equal(check.count(lines, "^begin by hand at 2$"), 1)
    check.equal(check.count(lines, "^begin leaf at 3$"), 2)
    check.equal(lines[#lines], "end 0")
  end

  function cases.coroutines()
    local function body()
      leaf()
      coroutine.yield()
      leaf()
      return 1
    end
    local lines = traced(function()
      local one, other = coroutine.wrap(body), coroutine.wrap(body)
      one()
      other()
      one()
      other()
    end)
    check.equal(check.count(lines, "^begin leaf at"), 4)
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

  function cases.coroutines_that_are_not_traced()
    local create, resume = coroutine.create, coroutine.resume
    local function body()
      leaf()
      coroutine.yield()
      leaf()
      return 1
    end
    local lines = traced(function()
      for _ = 1, 3 do
        local co = create(body)
        resume(co)
        local _ = leaf()
        resume(co)
      end
      local _ = leaf()
    end)
    check.equal(check.count(lines, "^begin leaf at"), 10)
    check.equal(lines[#lines], "end 0")
  end

  function cases.another_hook_is_left_alone()
    debug.sethook(function() end, "l")
    check.fails("another hook", syscollect.trace_functions, true)
    check.equal(select(2, debug.gethook()), "l")
    debug.sethook()
  end

  function cases.a_program_that_takes_the_hook_away()
    traced(function()
      debug.sethook()
      leaf()
    end)
    zone("after"):close()
    check.recorded("begin after at 0", "end 0")
  end

  return cases
end
