/* Uses every function that RLBox asks of a plugin, as RLBox does, without RLBox. */
#include "rlbox_sfi_sandbox.hpp"

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#ifdef RLBOX_EMBEDDER_PROVIDES_TLS_STATIC_VARIABLES
RLBOX_SFI_SANDBOX_STATIC_VARIABLES();
#endif

namespace {

std::atomic<int> checks{0}, failures{0};
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)
void check(bool holds, const char *what, int line)
{
    ++checks;
    if (holds) return;
    ++failures;
    std::cout << "line " + std::to_string(line) + ": " + what + "\n";
}

template <class Function>
std::string thrown(Function function)
{
    try {
        function();
    } catch (const std::exception &error) {
        return error.what();
    }
    return "";
}
#define FAILS(text, ...) CHECK(thrown([&] { __VA_ARGS__; }).find(text) != std::string::npos)

using plugin = rlbox::rlbox_sfi_sandbox;
struct point { double x, y; };
struct mixed { int count; float weight; };
struct large { uintptr_t name; long numbers[5]; };
struct ints { long a, b; };
struct later { long a; double b; };
struct first { double a; long b; };
struct nine { long a; char b; };

/* RLBox derives from the plugin, too. */
struct box : plugin {
    using plugin::impl_create_sandbox;
    using plugin::impl_destroy_sandbox;
    using plugin::impl_free_in_sandbox;
    using plugin::impl_get_executed_callback_sandbox_and_key;
    using plugin::impl_get_memory_location;
    using plugin::impl_get_total_memory;
    using plugin::impl_internal_lookup_symbol;
    using plugin::impl_is_in_same_sandbox;
    using plugin::impl_is_pointer_in_app_memory;
    using plugin::impl_is_pointer_in_sandbox_memory;
    using plugin::impl_lookup_symbol;
    using plugin::impl_malloc_in_sandbox;

    template <class Function, class... Values>
    auto invoke(const char *name, Values &&...values)
    {
        auto *function = reinterpret_cast<Function *>(impl_lookup_symbol(name));
        return this->template impl_invoke_with_func_ptr<Function>(function, std::forward<Values>(values)...);
    }
    template <class Result, class... Types>
    uintptr_t add(void *key, Result (*interceptor)(Types...))
    {
        return this->template impl_register_callback<Result, Types...>(key, reinterpret_cast<void *>(interceptor));
    }
    template <class Result, class... Types>
    void remove(void *key, Result (*)(Types...)) { this->template impl_unregister_callback<Result, Types...>(key); }
    void *out(uintptr_t p) const { return this->template impl_get_unsandboxed_pointer<void *>(p); }
    uintptr_t in(const void *p) const { return this->template impl_get_sandboxed_pointer<void *>(p); }
    static void *out_by(uintptr_t p, const void *example) { return plugin::template impl_get_unsandboxed_pointer_no_ctx<void *>(p, example, nullptr); }
    static uintptr_t in_by(const void *p, const void *example) { return plugin::template impl_get_sandboxed_pointer_no_ctx<void *>(p, example, nullptr); }
};

sfi_status host_time(void *, sfi_host_call *, sfi_value *result)
{
    result->i = 1234;
    return SFI_OK;
}
std::shared_ptr<sfi_config> config()
{
    std::shared_ptr<sfi_config> made(sfi_config_new(), sfi_config_free);
    sfi_config_function(made.get(), "time", host_time, nullptr, nullptr);
    sfi_config_sharing(made.get(), SFI_SHARE_LOCK, nullptr);
    return made;
}
void open(box &sandbox)
{
    static std::shared_ptr<sfi_config> offered = config();
    rlbox::rlbox_sfi_options options;
    options.config = offered.get();
    CHECK(sandbox.impl_create_sandbox("library.toml", options));
}

int one_key, other_key;
thread_local box *expected;

/* An interceptor finds out at once who runs. */
void who(void *key)
{
    auto found = box::impl_get_executed_callback_sandbox_and_key();
    CHECK(found.first == expected && found.second == key);
}
long visitor(uintptr_t context, long value)
{
    who(&one_key);
    return value + static_cast<long>(context);
}
long reenter(uintptr_t, long value)
{
    who(&one_key);
    box &sandbox = *expected;
    uintptr_t memory = sandbox.impl_malloc_in_sandbox(64);
    CHECK(memory != 0);
    sandbox.impl_free_in_sandbox(memory);
    return sandbox.invoke<long(long, long)>("add", value, 1L);
}
long throws(uintptr_t, long) { throw std::runtime_error("thrown by a callback"); }
long leaves(uintptr_t, long value)
{
    box &sandbox = *expected;
    sandbox.remove(&one_key, leaves);
    uintptr_t other = sandbox.add(&other_key, visitor);
    sandbox.remove(&other_key, visitor);
    return value + (other != 0);
}
double structures(point p, mixed m, long a, long b, long c, long d, long e, large last)
{
    who(&one_key);
    double all = p.x + 10 * p.y + 100 * m.count + 1000 * static_cast<double>(m.weight);
    all += 1e4 * static_cast<double>(a + b + c + d + e);
    for (long number : last.numbers) all += 1e6 * static_cast<double>(number);
    return all + (std::strcmp(static_cast<const char *>(expected->out(last.name)), "name") == 0 ? 0.5 : 0);
}
large make_large(long x) { return {0, {x, x + 1, x + 2, x + 3, x + 4}}; }
mixed make_mixed(long x) { return {static_cast<int>(x), 2.5f}; }
ints make_ints(long x) { return {x, x + 1}; }
later make_later(long x) { return {x, 1.5}; }
first make_first(long x) { return {1.5, x}; }
point make_point(long x) { return {static_cast<double>(x), 1.5}; }
nine make_nine(long x) { return {x, 'c'}; }

void calls(box &sandbox)
{
    expected = &sandbox;
    CHECK(sandbox.invoke<long(long, long)>("add", 40, 2) == 42);
    CHECK(sandbox.invoke<unsigned char(unsigned char, signed char, bool)>("narrow", 250, -1, true) == 250);
    CHECK(sandbox.invoke<float(float)>("half", 5.0) == 2.5f);
    CHECK(sandbox.invoke<double(int, double, char, float, long, double, short, long, long, long, double)>(
              "all_kinds", 1, 2.0, 3, 4.0f, 5L, 6.0, 7, 8L, 9L, 10L, 11.0) == 66);
    sandbox.invoke<void()>("nothing");
    point p = sandbox.invoke<point(point)>("mirror", point{1, 2});
    CHECK(p.x == 2 && p.y == 1);
    mixed m = sandbox.invoke<mixed(mixed, mixed)>("mix", mixed{40, 1.5f}, mixed{2, 2});
    CHECK(m.count == 42 && m.weight == 3);
    long before = sandbox.invoke<long()>("how_many_freed");
    large l = sandbox.invoke<large(large, long)>("fill", large{0, {1, 2, 3, 4, 5}}, 10);
    CHECK(l.name == 0 && l.numbers[0] == 10 && l.numbers[4] == 50);
    CHECK(sandbox.invoke<long()>("how_many_freed") == before + 1);
    CHECK(sandbox.invoke<long()>("time_of_host") == 1234);
    CHECK(sandbox.impl_internal_lookup_symbol("exported") == sandbox.impl_lookup_symbol("exported"));
    FAILS("no global symbol", sandbox.impl_lookup_symbol("absent"));
}

void pointers(box &sandbox, box &other)
{
    auto base = reinterpret_cast<uintptr_t>(sandbox.impl_get_memory_location());
    CHECK(base != 0 && sandbox.impl_get_total_memory() == size_t(1) << 32);
    uintptr_t memory = sandbox.impl_malloc_in_sandbox(sizeof(int));
    auto *at = static_cast<int *>(sandbox.out(memory));
    CHECK(sandbox.impl_is_pointer_in_sandbox_memory(at) && !sandbox.impl_is_pointer_in_app_memory(at));
    CHECK(!other.impl_is_pointer_in_sandbox_memory(at) && !other.impl_is_pointer_in_app_memory(at));
    *at = 7;
    int local = 0;
    CHECK(!sandbox.impl_is_pointer_in_sandbox_memory(&local) && sandbox.impl_is_pointer_in_app_memory(&local));
    CHECK(!sandbox.impl_is_pointer_in_sandbox_memory(nullptr));
    CHECK(sandbox.in(at) == memory && box::in_by(at, at) == memory && box::out_by(memory, at) == at);
    CHECK(sandbox.invoke<uintptr_t(uintptr_t)>("echo", memory) == memory);

    /* Pointers elsewhere: of the application, of another sandbox, not canonical. */
    auto foreign = reinterpret_cast<uintptr_t>(other.impl_get_memory_location());
    uintptr_t hostile[] = {reinterpret_cast<uintptr_t>(&local), foreign + (1 << 20), base - 1, base + (uintptr_t(1) << 32),
                           0x1234567800000000 | (memory & 0xffffffff), ~uintptr_t(0), 512 << 10};
    for (uintptr_t value : hostile) {
        uintptr_t back = sandbox.invoke<uintptr_t(uintptr_t)>("pointer_of", value);
        CHECK(back == value && sandbox.out(back) == nullptr && box::out_by(back, at) == nullptr);
        large lie = sandbox.invoke<large(uintptr_t)>("liar", value);
        CHECK(sandbox.out(lie.name) == nullptr);
    }
    CHECK(sandbox.in(&local) == 0 && box::in_by(&local, at) == 0 && sandbox.in(other.impl_get_memory_location()) == 0);
    CHECK(box::out_by(memory, &local) == nullptr && box::in_by(at, &local) == 0 && box::out_by(5, &local) == nullptr);
    /* Small numbers, such as RLBox's app pointers. */
    for (uintptr_t small : {uintptr_t(1), uintptr_t(4096), uintptr_t(512 << 10) - 1}) {
        void *outside = sandbox.out(small);
        CHECK(sandbox.impl_is_pointer_in_sandbox_memory(outside) && sandbox.in(outside) == small);
        CHECK(box::out_by(small, at) == outside && box::in_by(outside, at) == small);
    }
    CHECK(sandbox.out(0) == nullptr && sandbox.in(nullptr) == 0);

    /* Ranges. */
    auto *bytes = reinterpret_cast<char *>(at);
    CHECK(box::impl_is_in_same_sandbox(bytes, bytes + 100) && !box::impl_is_in_same_sandbox(bytes, &local));
    CHECK(!box::impl_is_in_same_sandbox(bytes, reinterpret_cast<void *>(foreign)));
    CHECK(box::impl_is_in_same_sandbox(&local, &local + 1) && !box::impl_is_in_same_sandbox(nullptr, &local));
    CHECK(!box::impl_is_in_same_sandbox(nullptr, reinterpret_cast<void *>(0x400000)));
    CHECK(!box::impl_is_in_same_sandbox(reinterpret_cast<void *>(base - 1), reinterpret_cast<void *>(base + (uintptr_t(1) << 32))));
    sandbox.impl_free_in_sandbox(memory);

    /* A malloc that lies, and one that has nothing left. */
    sandbox.invoke<void(uintptr_t)>("set_lie", reinterpret_cast<uintptr_t>(&local));
    FAILS("malloc", sandbox.impl_malloc_in_sandbox(4));
    FAILS("malloc", sandbox.invoke<large(large, long)>("fill", large{}, 1));
    sandbox.invoke<void(uintptr_t)>("set_lie", 0);
    CHECK(sandbox.impl_malloc_in_sandbox(size_t(1) << 30) == 0);
}

void callbacks(box &sandbox)
{
    expected = &sandbox;
    uintptr_t pointer = sandbox.add(&one_key, visitor);
    CHECK(sandbox.invoke<long(uintptr_t, uintptr_t, long)>("visit", pointer, 10, 4) == 46);
    auto address = reinterpret_cast<uintptr_t>(sandbox.impl_lookup_symbol("exported"));
    CHECK(sandbox.invoke<long(uintptr_t, uintptr_t, long)>("visit", address, 0, 4) == 18);
    uintptr_t internal = sandbox.invoke<uintptr_t()>("internal");
    CHECK(sandbox.invoke<long(uintptr_t, uintptr_t, long)>("visit", internal, 0, 4) == 12);
    sandbox.invoke<void(uintptr_t)>("keep", pointer);
    CHECK(sandbox.invoke<long(long)>("call_kept", 5L) == 5);
    sandbox.remove(&one_key, visitor);
    CHECK(sandbox.invoke<long(long)>("call_kept", 5L) <= 0);
    sandbox.remove(&one_key, visitor);

    pointer = sandbox.add(&one_key, reenter);
    CHECK(sandbox.invoke<long(uintptr_t, uintptr_t, long)>("visit", pointer, 0, 100) == 5050);
    sandbox.remove(&one_key, reenter);
    pointer = sandbox.add(&one_key, structures);
    uintptr_t name = sandbox.impl_malloc_in_sandbox(5);
    std::strcpy(static_cast<char *>(sandbox.out(name)), "name");
    CHECK(sandbox.invoke<double(uintptr_t, uintptr_t)>("visit_point", pointer, name) == 15354321.5);
    sandbox.remove(&one_key, structures);
    pointer = sandbox.add(&one_key, make_large);
    CHECK(sandbox.invoke<large(uintptr_t, long)>("ask_large", pointer, 38).numbers[4] == 42);
    sandbox.remove(&one_key, make_large);
    pointer = sandbox.add(&one_key, make_mixed);
    mixed made = sandbox.invoke<mixed(uintptr_t, long)>("ask_mixed", pointer, 42);
    CHECK(made.count == 42 && made.weight == 2.5f);
    sandbox.remove(&one_key, make_mixed);
    auto asked = [&](auto make, const char *name, auto result) {
        using type = decltype(result);
        uintptr_t added = sandbox.add(&one_key, make);
        result = sandbox.invoke<type(uintptr_t, long)>(name, added, 42);
        sandbox.remove(&one_key, make);
        return result;
    };
    ints i = asked(make_ints, "ask_ints", ints{});
    CHECK(i.a == 43 && i.b == 42);
    later l = asked(make_later, "ask_later", later{});
    CHECK(l.a == 84 && l.b == 3);
    first f = asked(make_first, "ask_first", first{});
    CHECK(f.a == 3 && f.b == 84);
    point p = asked(make_point, "ask_point", point{});
    CHECK(p.x == 1.5 && p.y == 42);
    nine n = asked(make_nine, "ask_nine", nine{});
    CHECK(n.a == 42 && n.b == 'c');

    pointer = sandbox.add(&one_key, throws);
    FAILS("thrown by a callback", sandbox.invoke<long(uintptr_t, uintptr_t, long)>("visit", pointer, 0, 2));
    sandbox.remove(&one_key, throws);
    pointer = sandbox.add(&one_key, leaves);
    CHECK(sandbox.invoke<long(uintptr_t, uintptr_t, long)>("visit", pointer, 0, 1) == 1);
    for (int i = 0; i < 1000; ++i) {
        sandbox.add(&one_key, visitor);
        sandbox.add(&other_key, reenter);
        sandbox.remove(&one_key, visitor);
        sandbox.remove(&other_key, reenter);
    }
    /* As many at a time as the manifest says. */
    char keys[17];
    for (char *key = keys; key < keys + 16; ++key) CHECK(sandbox.add(key, visitor) != 0);
    FAILS("callback", sandbox.add(keys + 16, visitor));
    for (char *key = keys; key < keys + 16; ++key) sandbox.remove(key, visitor);
}

void endings()
{
    box sandbox;
    CHECK(!sandbox.impl_create_sandbox("absent.toml", false));
    FAILS("absent.toml", sandbox.impl_create_sandbox("absent.toml"));
    rlbox::rlbox_sfi_options options;
    options.infallible = false;
    CHECK(!sandbox.impl_create_sandbox("library.toml", options)); /* nobody offers `time` */
    auto offered = config();
    options.config = offered.get();
    options.domain = "absent";
    CHECK(!sandbox.impl_create_sandbox("library.toml", options));
    for (int i = 0; i < 3; ++i) {
        open(sandbox);
        CHECK(sandbox.invoke<long()>("count") == 1 && std::string(sandbox.domain()) == "library");
        FAILS("call of the library failed: domain `library`", sandbox.invoke<long()>("crash"));
        FAILS("failed", sandbox.invoke<long(long, long)>("add", 1, 2));
        FAILS("malloc", sandbox.impl_malloc_in_sandbox(4));
        void *was = sandbox.impl_get_memory_location();
        sandbox.impl_destroy_sandbox();
        CHECK(!sandbox.impl_is_pointer_in_sandbox_memory(was) && sandbox.impl_get_total_memory() == 0);
    }
}

void fleets()
{
    auto offered = config();
    sfi_template *made = nullptr;
    sfi_pool *pool = nullptr;
    CHECK(sfi_template_open("library.toml", offered.get(), &made, nullptr) == SFI_OK);
    CHECK(sfi_pool_new(made, 2, &pool, nullptr) == SFI_OK);
    std::vector<std::unique_ptr<box>> all;
    for (int i = 0; i < 20; ++i) {
        all.push_back(std::make_unique<box>());
        CHECK(all.back()->impl_create_sandbox(made));
    }
    for (auto &sandbox : all) calls(*sandbox), callbacks(*sandbox);
    for (int i = 0; i < 10; ++i) {
        box one, other, third;
        CHECK(one.impl_create_sandbox(pool) && other.impl_create_sandbox(pool) && !third.impl_create_sandbox(pool, false));
        CHECK(one.invoke<long()>("count") == 1 && other.invoke<long()>("count") == 1);
        callbacks(one);
        other.impl_destroy_sandbox();
        CHECK(third.impl_create_sandbox(pool));
    }
    sfi_pool_free(pool);
    sfi_template_free(made);
}

long slow(uintptr_t context, long value) { return value + static_cast<long>(context); }

/* Four threads, each with a sandbox of its own, and all with one. */
void threads()
{
    box shared;
    open(shared);
    uintptr_t pointer = shared.add(&one_key, slow);
    std::vector<std::thread> all;
    for (int t = 0; t < 4; ++t) {
        all.emplace_back([&shared, pointer, t] {
            box own;
            open(own);
            char key;
            for (long i = 0; i < 500; ++i) {
                CHECK(own.invoke<long(long, long)>("add", i, t) == i + t);
                CHECK(shared.invoke<long(long, long)>("add", i, t) == i + t);
                CHECK(shared.invoke<long(uintptr_t, uintptr_t, long)>("visit", pointer, t, 3) == 3 + 3 * t);
                uintptr_t mine = shared.add(&key, slow);
                CHECK(shared.invoke<long(uintptr_t, uintptr_t, long)>("visit", mine, 1, 2) == 3);
                shared.remove(&key, slow);
            }
            callbacks(own);
        });
    }
    for (auto &thread : all) thread.join();
}

} // namespace

int main()
{
    box one, other;
    open(one);
    open(other);
    calls(one);
    calls(other);
    pointers(one, other);
    callbacks(one);
    callbacks(other);
    endings();
    fleets();
    threads();
    if (failures) std::cout << failures << " of " << checks << " checks fail\n";
    else std::cout << "all checks hold\n";
    return failures != 0;
}
