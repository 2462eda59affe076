-- What is said comes out.

local syscollect = require "syscollect"
local zone = syscollect.zone

return function(check)
  local cases, testing = {}, check.testing

  function cases.a_zone_and_what_is_said_of_it()
    local one = zone("load")
    one:text("file a")
    one:value(7)
    one:value(2.5, "ratio")
    one:value(-1)
    one:color(0xff8000)
    one:name("other")
    one:close()
    check.recorded("begin load at 0", "text file a", "value 7", "value ratio: 2.5", "value -1",
      "color ff8000", "zone name other", "end 0")
  end

  function cases.a_function_within_a_zone()
    local function work(...)
      zone("inner"):close()
      return select("#", ...), ...
    end
    local count, a, b, c = zone("outer", work, 1, nil, nil)
    check.equal(count, 3)
    check.equal(a, 1)
    check.equal(b, nil)
    check.equal(c, nil)
    check.recorded("begin outer at 0", "begin inner at 1", "end 1", "end 0")
  end

  function cases.an_error_closes_the_zone_and_is_named()
    local object = {}
    local function fail(what)
      error(what, 0)
    end
    local function outer()
      zone("inner", fail, "broken")
    end
    local good, message = pcall(zone, "outer", outer)
    check.equal(good, false)
    check.equal(message, "broken")
    local _, same = pcall(zone, "object", fail, object)
    check.equal(same, object)
    check.recorded("begin outer at 0", "begin inner at 1", "text error: broken", "end 1",
      "text error: broken", "end 0", "begin object at 0", "text error", "end 0")
  end

  function cases.locations_are_those_of_the_callers()
    local line = debug.getinfo(1, "l").currentline
    local one = zone("at one")
    one:close()
    zone("at two", function() end)
    syscollect.async_zone("at three"):close()
    local found = testing.locations()
    local file = "tests/tests_zones.lua"
    check.has(found, "^at one|.*|" .. file .. "|" .. line + 1 .. "$")
    check.has(found, "^at two|.*|" .. file .. "|" .. line + 3 .. "$")
    check.has(found, "^at three|.*|" .. file .. "|" .. line + 4 .. "$")
  end

  function cases.a_location_is_sent_once()
    for _ = 1, 100 do
      zone("sent once"):close()
    end
    check.equal(check.count(testing.locations(), "^sent once|"), 1)
    check.equal(check.count(check.lines(), "^begin sent once"), 100)
  end

  function cases.locations_of_scripts_without_a_file()
    local load = loadstring or load
    load("require('syscollect').zone('in a string'):close()")()
    load("require('syscollect').zone('in a chunk'):close()", "=chunk")()
    check.has(testing.locations(), "^in a string|main chunk|%[string .*%]|1$")
    check.has(testing.locations(), "^in a chunk|main chunk|chunk|1$")
  end

  function cases.names_that_change_at_one_line_are_said_with_the_zone()
    local before = #testing.locations()
    for number = 1, 1000 do
      local one = zone("job " .. number)
      one:close()
    end
    check.equal(#testing.locations() - before, 8)
    local lines = check.lines()
    check.equal(check.count(lines, "^begin job "), 1000)
    check.has(lines, "^begin job 8 at 0$")
    check.has(lines, "^zone name job 9$")
    check.has(lines, "^zone name job 1000$")
  end

  function cases.several_zones_in_one_line()
    local a, b = zone("a"), zone("b")
    b:close()
    a:close()
    check.recorded("begin a at 0", "begin b at 1", "end 1", "end 0")
  end

  function cases.messages_plots_and_frames()
    syscollect.message("hello")
    syscollect.message("red", 0xff0000)
    syscollect.plot("queue", 3)
    syscollect.plot("load", 0.5, "ms")
    syscollect.frame()
    syscollect.frame("physics")
    check.recorded("message 000000", "said hello", "message ff0000", "said red", "plot queue 3",
      "plot load 0.5", "frame -", "frame physics")
  end

  function cases.an_event_loop_and_an_image()
    syscollect.loop_waits()
    syscollect.loop_turns()
    check.recorded("loop waits", "loop turns")
    syscollect.frame_image(("\0"):rep(16 * 8 * 4), 16, 8, 2, true)
    local lines, tries = {}, 0
    repeat
      for _, line in ipairs(check.lines()) do
        lines[#lines + 1] = line
      end
      tries = tries + 1
      testing.sleep(10)
    until #lines >= 4 or tries == 500
    check.same(lines, { "image", "blocks", "blocks", "blocks" })
    check.fails("four bytes", syscollect.frame_image, "", 16, 8)
    check.fails("no width", syscollect.frame_image, "", 0, 8)
  end

  function cases.numbers_that_are_odd()
    for _, number in ipairs { 0, -0.5, 2 ^ 53, 1e300, 1 / 0, -1 / 0 } do
      syscollect.plot("n", number)
    end
    syscollect.plot("n", 0 / 0)
    local lines = check.lines()
    check.equal(lines[1], "plot n 0")
    check.equal(lines[2], "plot n -0.5")
    check.equal(lines[3], "plot n 9.007199254741e+15")
    check.equal(lines[5], "plot n inf")
    check.equal(lines[6], "plot n -inf")
    check.has(lines, "nan")
    if math.maxinteger then
      syscollect.plot("n", math.maxinteger)
      syscollect.plot("n", math.mininteger)
      check.recorded("plot n 9223372036854775807", "plot n -9223372036854775808")
    end
  end

  function cases.async_zones_end_anywhere()
    local one, other = syscollect.async_zone("request"), syscollect.async_zone("other", "words")
    one:close()
    testing.on_a_thread(function() other:close() end)
    other:close()
    check.recorded("async request", "async other", "async text words", "async end", "async end")
  end

  function cases.a_thread_can_be_named()
    syscollect.thread_name("main of Lua")
    local all = {}
    for _, ring in ipairs(testing.take()) do
      for _, line in ipairs(ring) do
        all[#all + 1] = line
      end
    end
    check.has(all, "^name main of Lua$")
  end

  function cases.scopes_of_lua_5_4()
    if not check.closes then return end
    local work = load [[
      local zone = ...
      local outer <close> = zone("outer")
      do local inner <close> = zone("inner") end
      error("broken", 0)
    ]]
    check.fails("^broken$", work, zone)
    check.recorded("begin outer at 0", "begin inner at 1", "end 1", "text error: broken", "end 0")
  end

  function cases.while_nobody_records()
    testing.lower()
    check.equal(syscollect.enabled(), false)
    local one = zone("off")
    one:text("a")
    one:value(1, "b")
    one:color(1)
    one:name("c")
    one:close()
    one:close()
    check.equal(zone("off", function(...) return ... end, 5), 5)
    syscollect.message("d")
    syscollect.plot("e", 1)
    syscollect.frame()
    syscollect.async_zone("f"):close()
    check.recorded()
    testing.raise()
    check.equal(syscollect.enabled(), true)
  end

  function cases.a_loop_sees_that_a_recording_begins()
    testing.lower()
    testing.raise_later()
    local turns = 0
    repeat
      turns = turns + 1
      local one = zone("turn")
      one:close()
    until turns >= 2e9 or syscollect.enabled()
    check.equal(syscollect.enabled(), true)
    zone("after"):close()
    check.has(check.lines(), "^begin after at 0$")
  end

  function cases.a_recording_that_begins_and_ends_within_zones()
    testing.lower()
    local off = zone("off")
    testing.raise()
    local on = zone("on")
    testing.lower()
    on:close()
    off:close()
    testing.raise()
    testing.take()
    zone("after"):close()
    check.recorded("begin after at 0", "end 0")
  end

  return cases
end
