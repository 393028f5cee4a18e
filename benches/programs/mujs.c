#include "bench.h"
#include <mujs.h>
static const char program[] =
    "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }\n"
    "var sum = fib(17), list = [], words = {};\n"
    "for (var i = 0; i < 2000; i++) list.push({key: (i * 7919) % 1009, name: 'item' + i});\n"
    "list.sort(function (a, b) { return a.key - b.key });\n"
    "for (var i = 0; i < list.length; i++) words[list[i].name.charAt(4 + i % 2)] = (words[list[i].name.charAt(4 + i % 2)] || 0) + list[i].key;\n"
    "for (var w in words) sum += words[w] % 1000;\n"
    "sum += list.map(function (x) { return x.name }).join(',').replace(/(\\d)(\\d)/g, '$2$1').length;\n"
    "sum += JSON.parse(JSON.stringify(list)).length;\n"
    "sum\n";
unsigned long work(void) {
    js_State *state = js_newstate(NULL, NULL, 0);
    if (js_ploadstring(state, "program", program)) puts(js_tostring(state, -1)), exit(1);
    js_pushundefined(state);
    if (js_pcall(state, 0)) puts(js_tostring(state, -1)), exit(1);
    unsigned long sum = (unsigned long)js_tonumber(state, -1);
    js_freestate(state);
    return sum;
}
