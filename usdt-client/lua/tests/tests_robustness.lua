-- Whatever a program does with its zones is an error of Lua's or ignored, and harms no other zone.

local syscollect = require "syscollect"
local zone = syscollect.zone

return function(check)
  local cases, testing = {}, check.testing

  function cases.closing_twice()
    local outer, inner = zone("outer"), zone("inner")
    inner:close()
    inner:close()
    inner:text("late")
    inner:value(1)
    outer:close()
    outer:close()
    check.recorded("begin outer at 0", "begin inner at 1", "end 1", "end 0")
  end

  function cases.closing_in_the_wrong_order()
    local outer, inner = zone("outer"), zone("inner")
    outer:close()
    local other = zone("other")
    inner:close()
    other:text("still open")
    other:close()
    check.recorded("begin outer at 0", "begin inner at 1", "end 0", "begin other at 0",
      "text still open", "end 0")
  end

  function cases.what_is_said_of_an_outer_zone_is_not_said_of_the_inner()
    local outer, inner = zone("outer"), zone("inner")
    outer:text("not now")
    outer:color(1)
    inner:close()
    outer:text("now")
    outer:close()
    check.recorded("begin outer at 0", "begin inner at 1", "end 1", "text now", "end 0")
  end

  function cases.closing_on_another_thread()
    local one = zone("one")
    testing.on_a_thread(function() one:close() end)
    local other = zone("other")
    other:close()
    one:close()
    check.recorded("begin one at 0", "begin other at 1", "end 1", "end 0")
  end

  function cases.a_forgotten_zone_ends_when_it_is_collected()
    zone("forgotten")
    collectgarbage()
    collectgarbage()
    check.recorded("begin forgotten at 0", "end 0")
  end

  function cases.a_forgotten_zone_does_not_end_what_is_within_it()
    zone("forgotten")
    local inner = zone("inner")
    collectgarbage()
    collectgarbage()
    inner:text("still open")
    inner:close()
    check.recorded("begin forgotten at 0", "begin inner at 1", "text still open", "end 0")
  end

  function cases.an_error_that_leaves_a_zone_open()
    local outer = zone("outer")
    pcall(function()
      local _ = zone("left")
      error("x")
    end)
    outer:close()
    zone("after"):close()
    check.recorded("begin outer at 0", "begin left at 1", "end 0", "begin after at 0", "end 0")
    collectgarbage()
    check.recorded()
  end

  function cases.deep_recursion()
    local function down(depth)
      if depth > 0 then
        return (zone("deep", down, depth - 1))
      end
      return "bottom"
    end
    check.equal(down(1000), "bottom")
    local lines = check.lines()
    check.equal(check.count(lines, "^begin deep"), 1000)
    check.equal(check.count(lines, "^end"), 1000)
    local function forever()
      return (zone("forever", forever))
    end
    check.equal(pcall(forever), false)
    testing.take()
    collectgarbage()
    zone("after what was lost"):close()
    testing.take()
    zone("after"):close()
    check.recorded("begin after at 0", "end 0")
  end

  local function refuses()
    check.fails("string expected", zone)
    check.fails("string expected", zone, {})
    check.fails("string expected", zone, nil, print)
    check.fails("string expected", syscollect.message)
    check.fails("string expected", syscollect.message, {})
    check.fails("0xRRGGBB", syscollect.message, "a", -1)
    check.fails("0xRRGGBB", syscollect.message, "a", 0x1000000)
    check.fails("0xRRGGBB", syscollect.message, "a", 0 / 0)
    check.fails("number expected", syscollect.plot, "a")
    check.fails("number expected", syscollect.plot, "a", "b")
    check.fails("string expected", syscollect.plot, nil, 1)
    check.fails("string expected", syscollect.plot, "a", 1, {})
    check.fails("string expected", syscollect.frame, {})
    check.fails("string expected", syscollect.async_zone)
    check.fails("string expected", syscollect.async_zone, "a", {})
    check.fails("string expected", syscollect.thread_name)
    check.fails("attempt to call", zone, "a", 5)
    local one = zone("one")
    check.fails("number expected", one.value, one, "x")
    check.fails("string expected", one.value, one, 1, {})
    check.fails("string expected", one.text, one)
    check.fails("string expected", one.name, one, {})
    check.fails("number expected", one.color, one)
    check.fails("0xRRGGBB", one.color, one, -1)
    check.fails("zone", one.text, nil, "x")
    check.fails("zone", one.text, io.stdout, "x")
    check.fails("zone", one.text, syscollect.async_zone("a"), "x")
    check.equal(getmetatable(one), false)
    one:close()
    local good, message = pcall(function() zone() end)
    check.equal(good, false)
    check.has({ message }, "tests_robustness.lua:%d+: bad argument #1 to 'zone'")
  end

  cases.wrong_arguments = refuses

  function cases.wrong_arguments_while_nobody_records()
    testing.lower()
    refuses()
  end

  function cases.texts_that_are_odd()
    syscollect.message("a\0b")
    syscollect.message("caf\233")
    syscollect.message("\195\169 \255 \237\160\128")
    syscollect.message("")
    syscollect.message(("x"):rep(1000000))
    syscollect.message(("\255"):rep(1000000))
    syscollect.message(("\195\169"):rep(1000000))
    local one = zone(("n\255"):rep(10000))
    one:value(1, "a\0b")
    one:text("a\0b")
    one:close()
    syscollect.plot("p\0q", 1, "u\255")
    syscollect.frame("f\0g")
    syscollect.async_zone("a\0b", "c\255"):close()
    local replaced = "\239\191\189"
    local lines = check.lines()
    check.has(lines, "^said a" .. replaced .. "b$")
    check.has(lines, "^said caf" .. replaced .. "$")
    check.has(lines, "^said \195\169 " .. replaced .. " " .. replaced:rep(3) .. "$")
    check.has(lines, "^value a" .. replaced .. "b: 1$")
    check.has(lines, "^plot p" .. replaced .. "q 1$")
    check.has(lines, "^frame f" .. replaced .. "g$")
    check.has(lines, "^async a" .. replaced .. "b$")
    for _, line in ipairs(lines) do
      assert(#line < 4200, #line)
    end
    check.equal(lines[#lines], "async end")
  end

  function cases.a_file_with_an_odd_name()
    local load = loadstring or load
    load("require('syscollect').zone('odd'):close()", "@" .. ("d/"):rep(1000) .. "\255.lua")()
    load("require('syscollect').zone('odder'):close()", "@\255\255.lua")()
    check.recorded("begin odd at 0", "end 0", "begin odder at 0", "end 0")
  end

  function cases.a_forked_child_begins_anew()
    local one = zone("parent")
    local good = testing.in_child(function()
      zone("child"):close()
      one:close()
      local lines = check.lines()
      return table.concat(lines, " ") == "begin child at 0 end 0"
    end)
    check.equal(good, true)
    one:close()
    check.recorded("begin parent at 0", "end 0")
  end

  function cases.states_that_end_with_open_zones()
    local good = testing.in_states(20, [[
      local syscollect = require "syscollect"
      for _ = 1, 3 do
        kept = syscollect.zone("left open")
        async = syscollect.async_zone("left open, too")
        step = syscollect.coroutine.wrap(function()
          local one = syscollect.zone("in a coroutine")
          coroutine.yield(one)
        end)
        step()
      end
      syscollect.trace_functions(true)
      local function f() return 1 end
      f()
    ]])
    check.equal(good, 20)
    local lines = check.lines()
    check.equal(check.count(lines, "^async left open, too"), 60)
    check.equal(check.count(lines, "^async end"), 120)
    zone("after"):close()
    check.recorded("begin after at 0", "end 0")
  end

  function cases.states_in_threads()
    local good = testing.in_states(16, [[
      local syscollect = require "syscollect"
      local zone = syscollect.zone
      syscollect.thread_name("worker")
      for number = 1, 500 do
        local one = zone("in a thread")
        zone("with a function", function() one:text("not of the innermost") end)
        one:value(number)
        one:close()
      end
      collectgarbage()
    ]], true)
    check.equal(good, 16)
    local begun, ended = 0, 0
    for _, lines in ipairs(testing.take()) do
      begun = begun + check.count(lines, "^begin in a thread at 0$")
      ended = ended + check.count(lines, "^end 0$")
    end
    check.equal(begun, 16 * 500)
    check.equal(ended, 16 * 500)
    check.equal(check.count(testing.locations(), "^in a thread|"), 1)
  end

  function cases.a_module_that_is_loaded_twice()
    local one = zone("of the first")
    local loaded = package.loaded
    local kept = { loaded.syscollect, loaded["syscollect.core"] }
    loaded.syscollect, loaded["syscollect.core"] = nil, nil
    local again = require "syscollect"
    local other = again.zone("of the second")
    other.text(other, "of it")
    other:close()
    one:close()
    again, other = nil, nil
    loaded.syscollect, loaded["syscollect.core"] = kept[1], kept[2]
    collectgarbage()
    check.recorded("begin of the first at 0", "begin of the second at 1", "text of it", "end 1",
      "end 0")
  end

  return cases
end
