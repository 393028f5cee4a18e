/* RLBox with sfi: the sandboxed library runs in a domain of sfi, in this process. Its ABI is that
 * of the application, so structures, pointers and floats have one form on both sides.
 *
 *     #include "rlbox.hpp"
 *     #include "rlbox_sfi_sandbox.hpp"
 *     rlbox::rlbox_sandbox<rlbox::rlbox_sfi_sandbox> sandbox;
 *     sandbox.create_sandbox("libpng.toml");
 *
 * create_sandbox takes a manifest of sfi, a template or a pool of sfi.h, and rlbox_sfi_options if
 * needed, or `bool infallible`. A failure to create the sandbox ends the process as RLBox's checks
 * do, or is the result `false` if `infallible` is false. README.md says what the manifest needs.
 *
 * A fault or a refusal of the library is a failed check of RLBox: it throws with
 * RLBOX_USE_EXCEPTIONS, and otherwise ends the process. An exception that leaves a callback goes on
 * from the call of the sandbox in which the callback ran.
 *
 * Pointers: an address in the domain's window is the same on both sides. A number below 512 KiB,
 * where no window has memory, is an address at that distance from the window's base for the
 * application, so that RLBox's app pointers and small constants come back as they went. Any other
 * pointer of the library becomes null, and any other pointer of the application becomes 0.
 */
#pragma once

#include "rlbox_helpers.hpp"
#include "sfi.h"
#include "sfi_abi.hpp"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rlbox {

class rlbox_sfi_sandbox;

/* Choices for a sandbox. */
struct rlbox_sfi_options {
    /* The manifest's domain with the library. NULL: its only domain, or the first by name. */
    const char *domain = nullptr;
    /* The functions that the host offers to the library, and limits. NULL: none. Without it threads
     * wait for each other (SFI_SHARE_LOCK). */
    const sfi_config *config = nullptr;
    /* Says whether a failure to create the sandbox is a failed check. */
    bool infallible = true;
};

/* The callback that runs on this thread. */
struct rlbox_sfi_sandbox_thread_data {
    rlbox_sfi_sandbox *sandbox;
    void *key;
    std::exception_ptr *thrown;
};

#ifdef RLBOX_EMBEDDER_PROVIDES_TLS_STATIC_VARIABLES
rlbox_sfi_sandbox_thread_data *get_rlbox_sfi_sandbox_thread_data();
#define RLBOX_SFI_SANDBOX_STATIC_VARIABLES() \
    static thread_local rlbox::rlbox_sfi_sandbox_thread_data rlbox_sfi_sandbox_thread_info{nullptr, nullptr, nullptr}; \
    namespace rlbox { \
    rlbox_sfi_sandbox_thread_data *get_rlbox_sfi_sandbox_thread_data() { return &rlbox_sfi_sandbox_thread_info; } \
    } \
    static_assert(true, "")
#endif

class rlbox_sfi_sandbox {
public:
    using T_LongLongType = long long;
    using T_LongType = long;
    using T_IntType = int;
    using T_PointerType = uintptr_t;
    using T_ShortType = short;
    using needs_internal_lookup_symbol = void;

    rlbox_sfi_sandbox() = default;
    rlbox_sfi_sandbox(const rlbox_sfi_sandbox &) = delete;
    rlbox_sfi_sandbox &operator=(const rlbox_sfi_sandbox &) = delete;
    ~rlbox_sfi_sandbox() { release(); }

    /* The world of the sandbox, for functions of sfi.h, and its domain with the library. */
    sfi_world *world() const { return world_; }
    const char *domain() const { return domain_.c_str(); }

private:
    /* No window has memory below this offset. */
    static constexpr uint64_t small = 512 << 10;
    /* The size of a window. */
    static constexpr uint64_t window = UINT64_C(1) << 32;

    /* A function of the library that was called. */
    struct known {
        uintptr_t pointer;
        sfi_code *code;
        known *next;
    };
    static constexpr size_t buckets = 64;

    /* A registered function of the application. */
    struct callback {
        rlbox_sfi_sandbox *sandbox;
        void *key, *interceptor;
        std::string name;
        std::atomic<unsigned> running{0};
        bool registered = true; /* by the application */
        bool known = true;      /* to the library */
    };

    sfi_world *world_ = nullptr;
    std::string domain_;
    uint64_t base_ = 0, size_ = 0;
    std::atomic<known *> codes_[buckets] = {};
    std::mutex callbacks_lock_;
    std::list<std::unique_ptr<callback>> callbacks_;

    static rlbox_sfi_sandbox_thread_data &thread_data()
    {
#ifdef RLBOX_EMBEDDER_PROVIDES_TLS_STATIC_VARIABLES
        return *get_rlbox_sfi_sandbox_thread_data();
#else
        static thread_local rlbox_sfi_sandbox_thread_data data{nullptr, nullptr, nullptr};
        return data;
#endif
    }

    /* Fails a check of RLBox with the description of an error. */
    static void fail(const char *what, sfi_error *error)
    {
        const char *why = error ? sfi_error_message(error) : nullptr;
        std::string text = std::string("rlbox_sfi_sandbox: ") + what + (why ? ": " : "") + (why ? why : "");
        sfi_error_free(error);
        detail::dynamic_check(false, text.c_str());
    }

    void release()
    {
        for (auto &bucket : codes_) {
            for (known *each = bucket.exchange(nullptr); each != nullptr;) {
                known *next = each->next;
                sfi_code_free(each->code);
                delete each;
                each = next;
            }
        }
        if (world_ != nullptr) sfi_world_close(world_, nullptr);
        world_ = nullptr;
        callbacks_.clear();
        base_ = size_ = 0;
    }

    /* Completes the creation of a sandbox. */
    bool opened(sfi_status status, sfi_error *error, const char *domain, bool infallible)
    {
        if (status == SFI_OK) {
            const char *first = domain ? domain : sfi_world_domain(world_, 0);
            domain_ = first ? first : "";
            status = sfi_world_window(world_, domain_.c_str(), &base_, &size_, &error);
        }
        if (status == SFI_OK) return true;
        release();
        if (infallible) fail("the sandbox cannot be created", error);
        else sfi_error_free(error);
        return false;
    }

    static void *to_application(uint64_t base, uint64_t size, uintptr_t p)
    {
        if (p - base < size) return reinterpret_cast<void *>(p);
        if (p < small && p != 0 && size != 0) return reinterpret_cast<void *>(base + p);
        return nullptr;
    }

    static uintptr_t to_library(uint64_t base, uint64_t size, const void *p)
    {
        uintptr_t offset = reinterpret_cast<uintptr_t>(p) - base;
        if (offset >= size) return 0;
        return offset < small ? offset : base + offset;
    }

    /* The base of the window around an example, and its size, 0 if there is none. */
    static uint64_t around(const void *example, uint64_t &size)
    {
        uint64_t base = 0;
        size = sfi_window_of(example, &base) ? window : 0;
        return base;
    }

    /* Finds the function of a function pointer. */
    const sfi_code *code(uintptr_t pointer)
    {
        std::atomic<known *> &bucket = codes_[(pointer >> 3) % buckets];
        for (known *each = bucket.load(std::memory_order_acquire); each != nullptr; each = each->next)
            if (each->pointer == pointer) return each->code;
        sfi_code *found = nullptr;
        sfi_error *error = nullptr;
        if (sfi_code_find(world_, domain_.c_str(), pointer, &found, &error) != SFI_OK) {
            fail("no function of the library", error);
            return nullptr;
        }
        known *added = new known{pointer, found, bucket.load(std::memory_order_relaxed)};
        while (!bucket.compare_exchange_weak(added->next, added, std::memory_order_release, std::memory_order_relaxed)) {
        }
        return found;
    }

    /* Calls a function of the library by its type. */
    template <class Function>
    struct call_of;
    template <class Result, class... Types>
    struct call_of<Result(Types...)> {
        static Result call(rlbox_sfi_sandbox &sandbox, uintptr_t pointer, Types... values)
        {
            sfi::abi::arguments<Types...> all;
            uint64_t room = 0;
            if constexpr (std::is_class<Result>::value) {
                if (sfi::abi::returns_in_memory<Result>()) {
                    room = sandbox.impl_malloc_in_sandbox(sizeof(Result));
                    detail::dynamic_check(room != 0, "rlbox_sfi_sandbox: the library has no memory for a result");
                    all.returns_at(room);
                }
            }
            (all.add(values), ...);
            sandbox.cross(pointer, all.registers());
            if constexpr (std::is_class<Result>::value) {
                if (room != 0) {
                    Result value;
                    /* The library may have ended, or moved the memory from under the result. */
                    std::memcpy(static_cast<void *>(&value), reinterpret_cast<const void *>(room), sizeof value);
                    sandbox.impl_free_in_sandbox(room);
                    return value;
                }
            }
            if constexpr (!std::is_void<Result>::value) return all.template result<Result>();
        }
    };

    void cross(uintptr_t pointer, sfi_registers *registers)
    {
        const sfi_code *function = code(pointer);
        std::exception_ptr thrown;
        rlbox_sfi_sandbox_thread_data &thread = thread_data();
        std::exception_ptr *outer = thread.thrown;
        thread.thrown = &thrown;
        sfi_error *error = nullptr;
        sfi_status status = sfi_code_call(world_, function, registers, &error);
        thread.thrown = outer;
        if (thrown) {
            sfi_error_free(error);
            std::rethrow_exception(thrown);
        }
        if (status != SFI_OK) fail("a call of the library failed", error);
    }

    /* Runs the application's function of a callback. */
    template <class Result, class... Types>
    static sfi_status serve(void *user, sfi_host_call *call, sfi_value *result) noexcept
    {
        callback &self = *static_cast<callback *>(user);
        rlbox_sfi_sandbox_thread_data &thread = thread_data();
        std::exception_ptr *thrown = thread.thrown;
        ++self.running;
        sfi_status status = SFI_OK;
        try {
            status = run<Result, Types...>(self, call, result);
        } catch (...) {
            if (thrown && !*thrown) *thrown = std::current_exception();
            status = SFI_HOST;
        }
        thread.thrown = thrown;
        --self.running;
        return status;
    }

    template <class Result, class... Types>
    static sfi_status run(callback &self, sfi_host_call *call, sfi_value *result)
    {
        return sfi::abi::serve<Result, Types...>(call, result, [&](Types... values) -> Result {
            /* The function asks for them at once. */
            thread_data().sandbox = self.sandbox;
            thread_data().key = self.key;
            return reinterpret_cast<Result (*)(Types...)>(self.interceptor)(values...);
        });
    }

    /* Drops callbacks that were unregistered and do not run. The lock is held. */
    void sweep()
    {
        callbacks_.remove_if([](const std::unique_ptr<callback> &each) { return !each->known && each->running == 0; });
    }

protected:
    bool impl_create_sandbox(const char *manifest, const rlbox_sfi_options &options)
    {
        sfi_config *own = nullptr;
        if (options.config == nullptr) {
            own = sfi_config_new();
            sfi_config_sharing(own, SFI_SHARE_LOCK, nullptr);
        }
        sfi_error *error = nullptr;
        sfi_status status = sfi_world_open(manifest, own ? own : options.config, &world_, &error);
        sfi_config_free(own);
        return opened(status, error, options.domain, options.infallible);
    }

    bool impl_create_sandbox(const char *manifest, bool infallible = true)
    {
        rlbox_sfi_options options;
        options.infallible = infallible;
        return impl_create_sandbox(manifest, options);
    }

    /* A sandbox from a template is made faster, and shares its text with the others. */
    bool impl_create_sandbox(const sfi_template *from, bool infallible = true)
    {
        sfi_error *error = nullptr;
        sfi_status status = sfi_template_instance(from, &world_, &error);
        return opened(status, error, nullptr, infallible);
    }

    /* A sandbox from a pool goes back there when it is destroyed. If all are in use, this waits, or
     * fails if `infallible` is false. */
    bool impl_create_sandbox(const sfi_pool *from, bool infallible = true)
    {
        sfi_error *error = nullptr;
        sfi_status status = sfi_pool_take(from, infallible, &world_, &error);
        return opened(status, error, nullptr, infallible);
    }

    void impl_destroy_sandbox() { release(); }

    template <typename T>
    void *impl_get_unsandboxed_pointer(T_PointerType p) const
    {
        return to_application(base_, size_, p);
    }

    template <typename T>
    T_PointerType impl_get_sandboxed_pointer(const void *p) const
    {
        return to_library(base_, size_, p);
    }

    template <typename T>
    static void *impl_get_unsandboxed_pointer_no_ctx(T_PointerType p, const void *example, rlbox_sfi_sandbox *(*)(const void *))
    {
        uint64_t size, base = around(example, size);
        return to_application(base, size, p);
    }

    template <typename T>
    static T_PointerType impl_get_sandboxed_pointer_no_ctx(const void *p, const void *example, rlbox_sfi_sandbox *(*)(const void *))
    {
        uint64_t size, base = around(example, size);
        return to_library(base, size, p);
    }

    T_PointerType impl_malloc_in_sandbox(size_t size)
    {
        uint64_t pointer = 0;
        sfi_error *error = nullptr;
        if (sfi_world_malloc(world_, domain_.c_str(), size, &pointer, &error) != SFI_OK) fail("malloc", error);
        return pointer;
    }

    void impl_free_in_sandbox(T_PointerType p)
    {
        sfi_error *error = nullptr;
        if (sfi_world_free(world_, domain_.c_str(), p, &error) != SFI_OK) fail("free", error);
    }

    /* RLBox asks this also of ranges of the application: both ends are the application's then, and
     * no window fits between them. Null is in no range, so that a null pointer of the library and
     * an index lead nowhere. */
    static bool impl_is_in_same_sandbox(const void *p1, const void *p2)
    {
        uint64_t one = 0, other = 0;
        bool first = sfi_window_of(p1, &one), second = sfi_window_of(p2, &other);
        if (first || second) return first && second && one == other;
        uintptr_t a = reinterpret_cast<uintptr_t>(p1), b = reinterpret_cast<uintptr_t>(p2);
        return a != 0 && b != 0 && (a < b ? b - a : a - b) < window;
    }

    bool impl_is_pointer_in_sandbox_memory(const void *p) { return reinterpret_cast<uintptr_t>(p) - base_ < size_; }

    bool impl_is_pointer_in_app_memory(const void *p) { return !sfi_window_of(p, nullptr); }

    size_t impl_get_total_memory() { return static_cast<size_t>(size_); }

    void *impl_get_memory_location() { return reinterpret_cast<void *>(base_); }

    void *impl_lookup_symbol(const char *name)
    {
        uint64_t pointer = 0;
        sfi_error *error = nullptr;
        if (sfi_world_symbol(world_, domain_.c_str(), name, &pointer, &error) != SFI_OK) fail("symbol", error);
        return reinterpret_cast<void *>(pointer);
    }

    void *impl_internal_lookup_symbol(const char *name) { return impl_lookup_symbol(name); }

    template <typename T, typename T_Converted, typename... T_Args>
    auto impl_invoke_with_func_ptr(T_Converted *function, T_Args &&...values)
    {
        return call_of<T_Converted>::call(*this, reinterpret_cast<uintptr_t>(function), std::forward<T_Args>(values)...);
    }

    template <typename T_Ret, typename... T_Args>
    T_PointerType impl_register_callback(void *key, void *interceptor)
    {
        auto added = std::make_unique<callback>();
        added->sandbox = this;
        added->key = key;
        added->interceptor = interceptor;
        char name[32];
        std::snprintf(name, sizeof name, "callback %p", key);
        added->name = name;
        uint64_t pointer = 0;
        sfi_error *error = nullptr;
        std::string signature = sfi::abi::signature<T_Ret, T_Args...>();
        sfi_status status = sfi_callback_register(world_, domain_.c_str(), added->name.c_str(), signature.c_str(),
                                                  serve<T_Ret, T_Args...>, added.get(), &pointer, &error);
        if (status != SFI_OK) {
            fail("a callback cannot be registered", error);
            return 0;
        }
        std::lock_guard<std::mutex> held(callbacks_lock_);
        sweep();
        callbacks_.push_back(std::move(added));
        return pointer;
    }

    static std::pair<rlbox_sfi_sandbox *, void *> impl_get_executed_callback_sandbox_and_key()
    {
        return {thread_data().sandbox, thread_data().key};
    }

    template <typename T_Ret, typename... T_Args>
    void impl_unregister_callback(void *key)
    {
        /* The lock is not held while this thread waits for the world, because the thread that is in
         * the world may register callbacks. */
        callback *found = nullptr;
        {
            std::lock_guard<std::mutex> held(callbacks_lock_);
            for (auto &each : callbacks_)
                if (each->registered && each->key == key) found = each.get();
            if (found == nullptr) return;
            found->registered = false;
        }
        sfi_error *error = nullptr;
        if (sfi_callback_unregister(world_, domain_.c_str(), found->name.c_str(), &error) != SFI_OK)
            fail("a callback cannot be unregistered", error);
        std::lock_guard<std::mutex> held(callbacks_lock_);
        found->known = false;
        sweep();
    }
};

} // namespace rlbox
