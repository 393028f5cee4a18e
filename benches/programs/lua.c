#include "bench.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
static const char program[] =
    "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end\n"
    "local sum = fib(22)\n"
    "local t = {}\n"
    "for i = 1, 30000 do t[i] = (i * 7919) % 10007 end\n"
    "table.sort(t)\n"
    "for i = 1, #t, 100 do sum = sum + t[i] end\n"
    "local parts = {}\n"
    "for i = 1, 10000 do parts[#parts + 1] = ('%d:%s'):format(i, i % 3) end\n"
    "for a, b in table.concat(parts, ' '):gmatch('(%d+):(%d)') do sum = sum + #a * b end\n"
    "local point = setmetatable({}, {__index = function(_, k) return #k end})\n"
    "for i = 1, 100000 do sum = sum + point.abc + i // 3 end\n"
    "return math.tointeger(sum)\n";
unsigned long work(void) {
    lua_State *state = luaL_newstate();
    luaL_openlibs(state);
    if (luaL_dostring(state, program)) puts(lua_tostring(state, -1)), exit(1);
    unsigned long sum = lua_tointeger(state, -1);
    lua_close(state);
    return sum;
}
