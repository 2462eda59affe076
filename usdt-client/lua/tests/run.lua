-- Zones, messages, plots and frames, as a recorder would find them: `make check`.

local folder = arg[1]
local core = assert(package.searchpath and package.searchpath("syscollect.core", package.cpath)
  or folder .. "/syscollect/core.so")
local testing = assert(package.loadlib(core, "luaopen_syscollect_testing"))()
local syscollect = require "syscollect"

local is_jit, is_51 = rawget(_G, "jit") ~= nil, _VERSION == "Lua 5.1"
local tests = {}

-- What the calling thread's tests share.
local check = {
  is_jit = is_jit,
  is_51 = is_51 and not is_jit,
  closes = _VERSION >= "Lua 5.4",
  testing = testing,
}

local function is_stated(line)
  return line == "attached" or line == "ends" or line:find("^name ") ~= nil
end

-- What was written since the last call, without what is stated of threads.
function check.lines()
  local lines = {}
  for _, ring in ipairs(testing.take()) do
    for _, line in ipairs(ring) do
      if not is_stated(line) then
        lines[#lines + 1] = line
      end
    end
  end
  return lines
end

function check.same(found, expected)
  found, expected = table.concat(found, "\n"), table.concat(expected, "\n")
  if found ~= expected then
    error("found\n" .. found .. "\nbut expected\n" .. expected, 3)
  end
end

function check.recorded(...)
  check.same(check.lines(), { ... })
end

function check.equal(found, expected)
  if found ~= expected then
    error(("found %s, but expected %s"):format(tostring(found), tostring(expected)), 2)
  end
end

function check.fails(pattern, call, ...)
  local good, message = pcall(call, ...)
  if good or not tostring(message):find(pattern) then
    error(("found %s, but expected an error with %s"):format(tostring(message), pattern), 2)
  end
end

function check.has(lines, pattern)
  for _, line in ipairs(lines) do
    if line:find(pattern) then
      return line
    end
  end
  error("no line with " .. pattern .. " in\n" .. table.concat(lines, "\n"), 2)
end

function check.count(lines, pattern)
  local count = 0
  for _, line in ipairs(lines) do
    count = count + (line:find(pattern) and 1 or 0)
  end
  return count
end

for _, name in ipairs { "zones", "robustness", "coroutines", "functions" } do
  tests[#tests + 1] = { name = name, cases = require("tests_" .. name)(check) }
end

local failed, passed = 0, 0
for _, group in ipairs(tests) do
  local names = {}
  for name in pairs(group.cases) do
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do
    testing.raise()
    collectgarbage()
    collectgarbage()
    syscollect.message("first")
    testing.take()
    local good, message = xpcall(group.cases[name], debug.traceback)
    pcall(syscollect.trace_functions, false)
    testing.lower()
    testing.take()
    if good then
      passed = passed + 1
    else
      failed = failed + 1
      print(("%s: %s: %s"):format(group.name, name, message))
    end
  end
end
print(("%s: %d passed, %d failed"):format(is_jit and jit.version or _VERSION, passed, failed))
os.exit(failed == 0 and 0 or 1)
