-- `luarocks make` in this folder; the client for C is found by pkg-config.
rockspec_format = "3.0"
package = "syscollect"
version = "0.1.0-1"
source = {
  url = "git+https://github.com/syscollect/syscollect",
  dir = "syscollect/usdt-client/lua",
}
description = {
  summary = "Zones, messages, plots and frames of Lua programs, for the profiler syscollect",
  homepage = "https://github.com/syscollect/syscollect",
  license = "MIT OR Apache-2.0",
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.1, < 5.5" }
build = {
  type = "make",
  build_target = "rock",
  build_variables = {
    CC = "$(CC)",
    CFLAGS = "$(CFLAGS)",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    LUA = "rock",
  },
  install_variables = {
    LUA = "rock",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    LUA_DIR = "$(LUADIR)",
    C_DIR = "$(LIBDIR)",
  },
}
