// The part of RLBox that the viewer uses, for builds without RLBox: tainted values, and a sandbox
// around a plugin. A program of your own takes RLBox, which has far more: make run RLBOX=...
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace rlbox {
namespace detail {
inline void dynamic_check(bool holds, const char *message)
{
    if (!holds) throw std::runtime_error(message);
}
} // namespace detail

template <class Plugin>
class rlbox_sandbox;

// A value from the sandbox. Pointers among them are addresses for the application, or null.
template <class T, class Plugin>
class tainted {
public:
    tainted() = default;
    tainted(T value) : value_(value) {}
    template <class Other, class = std::enable_if_t<std::is_convertible<Other, T>::value>>
    tainted(tainted<Other, Plugin> other) : value_(other.UNSAFE_unverified()) {}

    T UNSAFE_unverified() const { return value_; }
    bool operator==(std::nullptr_t) const { return value_ == nullptr; }

    template <class Verifier>
    auto copy_and_verify(Verifier verifier) const
    {
        static_assert(!std::is_pointer<T>::value, "copy what it points to");
        return verifier(value_);
    }
    // Copies once. The sandbox cannot change the copy that is verified.
    template <class Verifier>
    auto copy_and_verify_string(Verifier verifier) const
    {
        if (value_ == nullptr) return verifier(std::unique_ptr<char[]>());
        size_t size = 0;
        do check(value_ + size);
        while (static_cast<const volatile char *>(value_)[size++] != 0);
        std::unique_ptr<char[]> copy(new char[size]);
        std::memcpy(copy.get(), value_, size);
        copy[size - 1] = 0;
        return verifier(std::move(copy));
    }
    // An element of an array of pointers of the sandbox.
    template <class Element = std::remove_pointer_t<T>>
    tainted<std::remove_cv_t<Element>, Plugin> operator[](size_t index) const
    {
        static_assert(std::is_pointer<Element>::value, "an array of pointers");
        check(value_ + index);
        auto pointer = *reinterpret_cast<const volatile uintptr_t *>(value_ + index);
        return static_cast<std::remove_cv_t<Element>>(access::out_by(pointer, value_));
    }

private:
    struct access : Plugin {
        static void *out_by(uintptr_t p, const void *example) { return Plugin::template impl_get_unsandboxed_pointer_no_ctx<void *>(p, example, nullptr); }
        static bool same(const void *a, const void *b) { return Plugin::impl_is_in_same_sandbox(a, b); }
    };
    void check(const void *at) const { detail::dynamic_check(access::same(value_, at), "a pointer left the sandbox"); }
    T value_{};
};

// A registered callback.
template <class Plugin>
class sandbox_callback {
public:
    sandbox_callback(uintptr_t pointer, rlbox_sandbox<Plugin> &sandbox, void *key) : pointer_(pointer), sandbox_(&sandbox), key_(key) {}
    sandbox_callback(sandbox_callback &&other) : pointer_(other.pointer_), sandbox_(std::exchange(other.sandbox_, nullptr)), key_(other.key_) {}
    ~sandbox_callback()
    {
        if (sandbox_) sandbox_->unregister(key_);
    }
    uintptr_t pointer() const { return pointer_; }

private:
    uintptr_t pointer_;
    rlbox_sandbox<Plugin> *sandbox_;
    void *key_;
};

template <class Plugin>
class rlbox_sandbox : protected Plugin {
    // The sandbox's form of a type: pointers are numbers.
    template <class T>
    using inside = std::conditional_t<std::is_pointer<T>::value, uintptr_t, T>;

    template <class T>
    inside<T> in(T value)
    {
        if constexpr (std::is_pointer<T>::value) return this->template impl_get_sandboxed_pointer<T>(value);
        else return value;
    }
    template <class T>
    tainted<T, Plugin> out(inside<T> value)
    {
        if constexpr (std::is_pointer<T>::value) return static_cast<T>(this->template impl_get_unsandboxed_pointer<T>(value));
        else return value;
    }
    template <class Formal>
    struct pass {
        template <class T>
        static inside<Formal> of(rlbox_sandbox &sandbox, const tainted<T, Plugin> &value) { return sandbox.in<Formal>(value.UNSAFE_unverified()); }
        static inside<Formal> of(rlbox_sandbox &, const sandbox_callback<Plugin> &value) { return value.pointer(); }
        static inside<Formal> of(rlbox_sandbox &, std::nullptr_t) { return 0; }
        static inside<Formal> of(rlbox_sandbox &, inside<Formal> value)
        {
            static_assert(!std::is_pointer<Formal>::value, "a pointer of the application");
            return value;
        }
    };
    template <class Result, class... Types>
    static inside<Result> intercept(inside<Types>... values)
    {
        auto found = Plugin::impl_get_executed_callback_sandbox_and_key();
        auto &sandbox = *static_cast<rlbox_sandbox *>(found.first);
        return reinterpret_cast<Result (*)(rlbox_sandbox &, tainted<Types, Plugin>...)>(found.second)(sandbox, sandbox.template out<Types>(values)...);
    }
    template <class Result, class... Types, class... Values>
    auto call(Result (*)(Types...), const char *name, const Values &...values)
    {
        using function = inside<Result>(inside<Types>...);
        auto *pointer = reinterpret_cast<function *>(this->impl_lookup_symbol(name));
        if constexpr (std::is_void<Result>::value) this->template impl_invoke_with_func_ptr<function>(pointer, pass<Types>::of(*this, values)...);
        else return out<Result>(this->template impl_invoke_with_func_ptr<function>(pointer, pass<Types>::of(*this, values)...));
    }

public:
    template <class... Values>
    bool create_sandbox(Values... values) { return this->impl_create_sandbox(values...); }
    void destroy_sandbox() { this->impl_destroy_sandbox(); }
    template <class T>
    tainted<T *, Plugin> malloc_in_sandbox(uint32_t count) { return out<T *>(this->impl_malloc_in_sandbox(sizeof(T) * uint64_t{count})); }
    template <class T>
    void free_in_sandbox(tainted<T *, Plugin> memory) { this->impl_free_in_sandbox(in<T *>(memory.UNSAFE_unverified())); }
    template <class... Types>
    sandbox_callback<Plugin> register_callback(void (*function)(rlbox_sandbox &, tainted<Types, Plugin>...))
    {
        auto *key = reinterpret_cast<void *>(function);
        auto *interceptor = reinterpret_cast<void *>(intercept<void, Types...>);
        return {this->template impl_register_callback<void, inside<Types>...>(key, interceptor), *this, key};
    }
    void unregister(void *key)
    {
        if (this->world() != nullptr) this->template impl_unregister_callback<void>(key);
    }
    template <class Function, class... Values>
    auto invoke(const char *name, const Values &...values) { return call(static_cast<Function *>(nullptr), name, values...); }
    bool holds(const void *from, size_t size) { return this->impl_is_pointer_in_sandbox_memory(from) && this->impl_is_pointer_in_sandbox_memory(static_cast<const char *>(from) + size); }
};

template <class T, class Plugin>
void memcpy(rlbox_sandbox<Plugin> &sandbox, tainted<T *, Plugin> to, const void *from, size_t size)
{
    detail::dynamic_check(sandbox.holds(to.UNSAFE_unverified(), size), "memory outside of the sandbox");
    std::memcpy(to.UNSAFE_unverified(), from, size);
}

} // namespace rlbox

#define sandbox_invoke(sandbox, function, ...) (sandbox).template invoke<decltype(function)>(#function, ##__VA_ARGS__)
