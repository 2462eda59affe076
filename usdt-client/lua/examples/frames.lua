-- A program to record: a frame loop whose scripts are coroutines, with zones, plots and messages.
--
-- It waits until somebody records it, does its work, and prints as JSON what it has marked:
-- `sudo syscollect record -- lua5.4 frames.lua 100`.

local syscollect = require "syscollect"
local zone, message, plot, frame = syscollect.zone, syscollect.message, syscollect.plot,
  syscollect.frame
-- In place of Lua's: coroutines are shown with their steps.
local coroutine = syscollect.coroutine

local frames = tonumber(arg[1]) or 100
local counts = {
  frame = 0, update = 0, script = 0, think = 0, checked = 0, messages = 0, plots = 0,
}

local function count(name)
  counts[name] = counts[name] + 1
end

-- What a script of the game does: some of it in each frame, within one zone.
local function script(turns)
  for turn = 1, turns do
    local think = zone("think")
    count("think")
    coroutine.yield()
    -- It goes on in the next frame: a zone that is laid aside is shown in two parts.
    count("think")
    think:value(turn)
    think:close()
  end
end

local function update(number)
  count("update")
  local sum = 0
  for term = 1, 1000 do
    sum = sum + term % (number + 1)
  end
  return sum
end

local function check(number)
  count("checked")
  if number % 10 == 0 then
    error("frame " .. number .. " failed", 0)
  end
end

local function draw(number, scripts)
  local whole = zone("frame")
  count("frame")
  whole:value(number)
  zone("update", update, number)
  for _, co in ipairs(scripts) do
    if coroutine.status(co) ~= "dead" then
      count("script")
      assert(coroutine.resume(co, frames - 1))
    end
  end
  local good, why = pcall(zone, "checked", check, number)
  if not good then
    message(why)
    count("messages")
  end
  plot("number", number)
  count("plots")
  whole:close()
  frame()
end

local deadline = os.time() + (tonumber(arg[2]) or 10)
while not syscollect.enabled() and os.time() < deadline do
  os.execute("sleep 0.02")
end
syscollect.thread_name("main of Lua")
-- The recorder finds the process's memory by its first event.
message("begins")
count("messages")
os.execute("sleep 0.2")

local scripts = {}
for number = 1, 3 do
  scripts[number] = coroutine.create(script, "script")
  -- Its life is a zone, too.
  count("script")
end
for number = 1, frames do
  draw(number, scripts)
  os.execute("sleep 0.001")
end

local printed = {}
for name, value in pairs(counts) do
  printed[#printed + 1] = ('"%s": %d'):format(name, value)
end
print("{" .. table.concat(printed, ", ") .. "}")
