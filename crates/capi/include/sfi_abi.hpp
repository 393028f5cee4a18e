/* The places where the psABI passes arguments and results of C++ types (section 3.2.3), for hosts
 * in C++17 that call functions of domains by pointer (sfi_code_call) or serve them
 * (sfi_host_registers). Header only. Scalars, pointers, enumerations and structures by value of any
 * size can be passed, but no types that are aligned to more than 8 bytes, such as long double and
 * vectors.
 *
 *     sfi::abi::arguments<point, double> all;
 *     all.add(corner);
 *     all.add(2.0);
 *     sfi_code_call(world, code, all.registers(), &error);
 *     point moved = all.result<point>();
 */
#ifndef SFI_ABI_HPP
#define SFI_ABI_HPP

#include "sfi.h"

#include <cstdarg>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>

namespace sfi {
namespace abi {

/* The passing of a structure by value. */
struct layout {
    bool memory;      /* on the stack, or through a pointer as a result */
    unsigned words;   /* otherwise its eightbytes, one or two */
    bool floats[2];   /* those that travel in vector registers */
};

template <class T>
constexpr unsigned words_of = static_cast<unsigned>((sizeof(T) + 7) / 8);

namespace detail {

template <class T>
constexpr bool is_word = std::is_integral<T>::value || std::is_enum<T>::value || std::is_pointer<T>::value;
template <class T>
constexpr bool is_float = std::is_same<T, float>::value || std::is_same<T, double>::value;

template <class T>
constexpr void check()
{
    static_assert(std::is_trivially_copyable<T>::value, "only plain data crosses to domains");
    static_assert(alignof(T) <= 8, "types that are aligned to more than 8 bytes do not cross");
    static_assert(is_word<T> || is_float<T> || std::is_class<T>::value || std::is_union<T>::value, "this type does not cross");
    static_assert(!std::is_empty<T>::value, "a structure without members does not cross");
}

/* A va_list, as the psABI lays it out (section 3.5.7). */
struct list {
    unsigned int_offset, float_offset;
    void *stack;
    void *registers;
};
static_assert(sizeof(list) == sizeof(va_list), "the psABI of x86-64 System V");

/* Lets the compiler take a T from registers full of marks, and looks at what it took. */
template <class T>
layout look() noexcept
{
    constexpr unsigned char an_int = 0x11, a_float = 0x22, stacked = 0x33;
    unsigned char registers[6 * 8 + 8 * 16], stack[(sizeof(T) + 15) / 8 * 8 + 8], found[sizeof(T) < 16 ? 16 : sizeof(T)] = {};
    std::memset(registers, an_int, 48);
    std::memset(registers + 48, a_float, 128);
    std::memset(stack, stacked, sizeof stack);
    va_list all;
    list start{0, 48, stack, registers};
    std::memcpy(static_cast<void *>(&all), &start, sizeof start);
    T taken = va_arg(all, T);
    std::memcpy(found, static_cast<const void *>(&taken), sizeof taken);
    std::memcpy(&start, static_cast<const void *>(&all), sizeof start);
    unsigned ints = start.int_offset / 8, floats = (start.float_offset - 48) / 16;
    layout result{ints + floats == 0, ints + floats, {floats > 0, floats > 1}};
    if (ints == 1 && floats == 1) {
        bool first = false;
        for (unsigned i = 0; i < 8; ++i) first = first || found[i] == a_float;
        result.floats[0] = first;
        result.floats[1] = !first;
    }
    return result;
}

/* What the psABI leaves of a value outside of its members must not carry the host's bytes. */
template <class T>
void clean(T &value) noexcept
{
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&value);
#endif
#endif
    (void)value;
}

} // namespace detail

/* Returns the passing of a structure. */
template <class T>
const layout &layout_of() noexcept
{
    detail::check<T>();
    static const layout found = sizeof(T) > 16 ? layout{true, 0, {false, false}} : detail::look<T>();
    return found;
}

/* Returns the 64 bits of a scalar in its register. */
template <class T>
uint64_t word_of(T value) noexcept
{
    if constexpr (std::is_same<T, double>::value) return sfi_f64(value).u;
    else if constexpr (std::is_same<T, float>::value) return sfi_f32(value).u;
    else if constexpr (std::is_pointer<T>::value) return reinterpret_cast<uintptr_t>(value);
    else return static_cast<uint64_t>(value);
}

/* Makes a scalar from the 64 bits of its register. */
template <class T>
T from_word(uint64_t word) noexcept
{
    if constexpr (std::is_same<T, double>::value) { sfi_value value = sfi_u(word); return value.f; }
    else if constexpr (std::is_same<T, float>::value) return sfi_as_f32(sfi_u(word));
    else if constexpr (std::is_same<T, bool>::value) return (word & 0xff) != 0;
    else if constexpr (std::is_pointer<T>::value) return reinterpret_cast<T>(static_cast<uintptr_t>(word));
    else return static_cast<T>(word);
}

namespace detail {

/* Registers and stack words that are given out in order. */
struct places {
    unsigned ints = 0, floats = 0;
    size_t stack = 0;

    /* Says whether all eightbytes of a structure fit into registers, and takes none. */
    bool fits(const layout &how) const
    {
        unsigned vectors = how.floats[0] + how.floats[1];
        return !how.memory && ints + how.words - vectors <= 6 && floats + vectors <= 8;
    }
};

} // namespace detail

/* The arguments of one call. */
template <class... Types>
class arguments {
public:
    arguments() { std::memset(&registers_, 0, sizeof registers_); }

    /* Adds the pointer to the memory of a result, before all arguments. */
    void returns_at(uint64_t pointer) { registers_.ints[at_.ints++] = pointer; }

    template <class T>
    void add(T value)
    {
        detail::check<T>();
        if constexpr (detail::is_word<T>) {
            if (at_.ints < 6) registers_.ints[at_.ints++] = word_of(value);
            else stack_[at_.stack++] = word_of(value);
        } else if constexpr (detail::is_float<T>) {
            if (at_.floats < 8) registers_.floats[at_.floats++] = word_of(value);
            else stack_[at_.stack++] = word_of(value);
        } else {
            detail::clean(value);
            const layout &how = layout_of<T>();
            uint64_t words[words_of<T>] = {};
            std::memcpy(words, static_cast<const void *>(&value), sizeof value);
            bool fits = at_.fits(how);
            for (unsigned i = 0; i < words_of<T>; ++i) {
                if (!fits) stack_[at_.stack++] = words[i];
                else if (how.floats[i & 1]) registers_.floats[at_.floats++] = words[i];
                else registers_.ints[at_.ints++] = words[i];
            }
        }
    }

    sfi_registers *registers()
    {
        registers_.use_floats = at_.floats > 0;
        registers_.stack = stack_;
        registers_.stack_words = at_.stack;
        return &registers_;
    }

    /* The result of a call that returned it in registers. */
    template <class T>
    T result() const
    {
        detail::check<T>();
        if constexpr (detail::is_word<T>) return from_word<T>(registers_.int_results[0]);
        else if constexpr (detail::is_float<T>) return from_word<T>(registers_.float_results[0]);
        else {
            const layout &how = layout_of<T>();
            uint64_t words[2] = {};
            unsigned ints = 0, floats = 0;
            for (unsigned i = 0; i < how.words; ++i)
                words[i] = how.floats[i] ? registers_.float_results[floats++] : registers_.int_results[ints++];
            T value;
            std::memcpy(static_cast<void *>(&value), words, sizeof value < sizeof words ? sizeof value : sizeof words);
            return value;
        }
    }

private:
    sfi_registers registers_;
    detail::places at_;
    uint64_t stack_[(words_of<Types> + ... + 1)] = {};
};

/* The arguments that a domain passes to a function of the host. */
template <class... Types>
class received {
public:
    /* Copies the arguments. */
    sfi_status take(sfi_host_call *call) { return sfi_host_registers(call, &registers_, stack_, size, nullptr); }

    /* Returns the pointer to the memory of a result, before all arguments. */
    uint64_t returns_at() { return registers_.ints[at_.ints++]; }

    template <class T>
    T next()
    {
        detail::check<T>();
        if constexpr (detail::is_word<T>) {
            return from_word<T>(at_.ints < 6 ? registers_.ints[at_.ints++] : stack_[at_.stack++]);
        } else if constexpr (detail::is_float<T>) {
            return from_word<T>(at_.floats < 8 ? registers_.floats[at_.floats++] : stack_[at_.stack++]);
        } else {
            const layout &how = layout_of<T>();
            uint64_t words[words_of<T>];
            bool fits = at_.fits(how);
            for (unsigned i = 0; i < words_of<T>; ++i) {
                if (!fits) words[i] = stack_[at_.stack++];
                else words[i] = how.floats[i & 1] ? registers_.floats[at_.floats++] : registers_.ints[at_.ints++];
            }
            T value;
            std::memcpy(static_cast<void *>(&value), words, sizeof value);
            return value;
        }
    }

private:
    static constexpr size_t size = (words_of<Types> + ... + 1);
    sfi_registers registers_;
    detail::places at_;
    uint64_t stack_[size];
};

namespace detail {

/* Counts the registers and stack words of a type. */
template <class T>
void count(places &at)
{
    check<T>();
    if constexpr (is_word<T>) at.ints < 6 ? static_cast<void>(++at.ints) : static_cast<void>(++at.stack);
    else if constexpr (is_float<T>) at.floats < 8 ? static_cast<void>(++at.floats) : static_cast<void>(++at.stack);
    else {
        const layout &how = layout_of<T>();
        if (at.fits(how)) {
            unsigned vectors = how.floats[0] + how.floats[1];
            at.floats += vectors;
            at.ints += how.words - vectors;
        } else {
            at.stack += words_of<T>;
        }
    }
}

} // namespace detail

/* Says whether a result is returned through a pointer. */
template <class T>
bool returns_in_memory()
{
    if constexpr (std::is_class<T>::value || std::is_union<T>::value) return layout_of<T>().memory;
    else return false;
}

/* Returns a signature by which a function of the host gets the arguments of these types, for
 * sfi_callback_register and sfi_world_lend. */
template <class Result, class... Types>
std::string signature()
{
    detail::places at;
    at.ints = returns_in_memory<Result>();
    (detail::count<Types>(at), ...);
    std::string text = "(";
    auto add = [&](const char *name) { text += (text.size() > 1 ? ", " : "") + std::string(name); };
    for (size_t i = 0; i < (at.stack ? 6 + at.stack : at.ints); ++i) add("int");
    for (unsigned i = 0; i < at.floats; ++i) add("float");
    text += ") -> ";
    if constexpr (std::is_void<Result>::value) return text + "void";
    else if constexpr (detail::is_float<Result>) return text + "float";
    else if constexpr (detail::is_word<Result>) return text + "int";
    else {
        const layout &how = layout_of<Result>();
        auto name = [&](unsigned i) { return std::string(how.floats[i] ? "float" : "int"); };
        if (how.memory) return text + "int";
        return text + (how.words == 2 ? "{" + name(0) + ", " + name(1) + "}" : name(0));
    }
}

/* Runs a function of the host with the arguments that a domain passed, and stores its result. */
template <class Result, class... Types, class Callable>
sfi_status serve(sfi_host_call *call, sfi_value *result, Callable &&callable)
{
    received<Types...> all;
    if (sfi_status status = all.take(call)) return status;
    uint64_t room = returns_in_memory<Result>() ? all.returns_at() : 0;
    (void)room;
    /* Braces evaluate from left to right. */
    std::tuple<Types...> values{all.template next<Types>()...};
    if constexpr (std::is_void<Result>::value) {
        std::apply(callable, values);
    } else if constexpr (detail::is_word<Result> || detail::is_float<Result>) {
        result->u = word_of(static_cast<Result>(std::apply(callable, values)));
    } else {
        Result value = std::apply(callable, values);
        detail::clean(value);
        if (layout_of<Result>().memory) {
            result->u = room;
            return sfi_host_write(call, room, &value, sizeof value, nullptr);
        }
        /* Without a second eightbyte `result` has one value. */
        uint64_t words[2] = {};
        if constexpr (sizeof value <= sizeof words) std::memcpy(words, static_cast<const void *>(&value), sizeof value);
        for (unsigned i = 0; i < layout_of<Result>().words; ++i) result[i].u = words[i];
    }
    return SFI_OK;
}

} // namespace abi
} // namespace sfi

#endif /* SFI_ABI_HPP */
