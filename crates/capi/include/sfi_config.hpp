/* Types and errors of sfi.hpp: the passing of C++ types to and from domains, functions of the host,
 * and the config that offers them. Hosts include sfi.hpp.
 */
#ifndef SFI_CONFIG_HPP
#define SFI_CONFIG_HPP

#include "sfi.h"

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sfi {

/* A failure: its status and its parts, as sfi_error_... describe them. */
class error : public std::exception {
public:
    error(sfi_status status, sfi_error *parts) : status_(status), parts_(parts, sfi_error_free) {}
    const char *what() const noexcept override { return text(sfi_error_message, "an error of sfi"); }
    sfi_status status() const noexcept { return status_; }
    /* Empty strings and 0 if the error has no such part. */
    const char *domain() const noexcept { return text(sfi_error_domain, ""); }
    const char *function() const noexcept { return text(sfi_error_function, ""); }
    const char *file() const noexcept { return text(sfi_error_file, ""); }
    uint64_t line() const noexcept { return parts_ ? sfi_error_line(parts_.get()) : 0; }
    int address_class() const noexcept { return parts_ ? sfi_error_address_class(parts_.get()) : SFI_ADDRESS_NONE; }
    const char *backtrace() const noexcept { return text(sfi_error_backtrace, ""); }

private:
    const char *text(const char *(*part)(const sfi_error *), const char *otherwise) const noexcept
    {
        const char *found = parts_ ? part(parts_.get()) : nullptr;
        return found ? found : otherwise;
    }
    sfi_status status_;
    std::shared_ptr<sfi_error> parts_;
};

/* A pointer in a domain's terms. The host cannot follow it. */
struct ptr {
    uint64_t value = 0;
    explicit operator bool() const noexcept { return value != 0; }
    friend bool operator==(ptr a, ptr b) noexcept { return a.value == b.value; }
    friend bool operator!=(ptr a, ptr b) noexcept { return a.value != b.value; }
    friend ptr operator+(ptr a, uint64_t bytes) noexcept { return ptr{a.value + bytes}; }
};

class host_call;

namespace detail {

/* Calls a function of sfi.h with a place for its error, and throws that. */
template <class Function, class... Arguments>
void checked(Function function, Arguments... arguments)
{
    sfi_error *parts = nullptr;
    sfi_status status = function(arguments..., &parts);
    if (status != SFI_OK) throw error(status, parts);
}

/* The passing of a type: its name in signatures, and its way to and from a value. */
template <class T, class = void>
struct passing {
    static_assert(!std::is_same<T, T>::value, "functions of domains take and return integers, floats and sfi::ptr");
};
template <class T>
struct passing<T, std::enable_if_t<std::is_integral<T>::value || std::is_enum<T>::value>> {
    static constexpr const char *name = "int";
    static constexpr bool floats = false;
    /* Sign or zero extends, as the type says. */
    static sfi_value to(T value) { return sfi_u(static_cast<uint64_t>(value)); }
    static T from(sfi_value value) { return static_cast<T>(value.u); }
};
template <>
struct passing<bool> {
    static constexpr const char *name = "int";
    static constexpr bool floats = false;
    static sfi_value to(bool value) { return sfi_u(value); }
    /* A bool is the low byte (psABI 3.2.3), and hostile code may leave any bits there. */
    static bool from(sfi_value value) { return (value.u & 0xff) != 0; }
};
template <>
struct passing<ptr> {
    static constexpr const char *name = "ptr";
    static constexpr bool floats = false;
    static sfi_value to(ptr value) { return sfi_u(value.value); }
    static ptr from(sfi_value value) { return ptr{value.u}; }
};
template <>
struct passing<double> {
    static constexpr const char *name = "float";
    static constexpr bool floats = true;
    static sfi_value to(double value) { return sfi_f64(value); }
    static double from(sfi_value value) { return value.f; }
    static double argument(sfi_host_call *call, size_t index) { return sfi_host_f64(call, index); }
};
template <>
struct passing<float> {
    static constexpr const char *name = "float";
    static constexpr bool floats = true;
    static sfi_value to(float value) { return sfi_f32(value); }
    static float from(sfi_value value) { return sfi_as_f32(value); }
    static float argument(sfi_host_call *call, size_t index) { return sfi_host_f32(call, index); }
};
template <>
struct passing<void> {
    static constexpr const char *name = "void";
    static void from(sfi_value) {}
};

/* Calls a function of the host, with the call before the parameters if it wants one. */
template <class Result, class Callable, class... Parameters>
Result invoke(Callable &callable, host_call &context, Parameters... parameters)
{
    if constexpr (std::is_invocable<Callable &, host_call &, Parameters...>::value)
        return callable(context, parameters...);
    else
        return callable(parameters...);
}

template <class Function>
struct signature;
template <class Result, class... Parameters>
struct signature<Result(Parameters...)> {
    static std::string text()
    {
        std::string all;
        for (const char *name : std::vector<const char *>{passing<Parameters>::name...})
            all += (all.empty() ? "" : ", ") + std::string(name);
        return "(" + all + ") -> " + passing<Result>::name;
    }
    /* The argument at `index` among the integers or among the floats before it. */
    template <class T>
    static T argument(sfi_host_call *call, size_t &ints, size_t &floats)
    {
        if constexpr (passing<T>::floats) return passing<T>::argument(call, floats++);
        else return passing<T>::from(sfi_u(sfi_host_argument(call, ints++)));
    }
    /* Calls a function of the host with the arguments of a call. */
    template <class Callable>
    static sfi_value serve(Callable &callable, sfi_host_call *call, host_call &context)
    {
        size_t ints = 0, floats = 0;
        (void)ints, (void)floats;
        /* Braces evaluate from left to right. */
        std::tuple<Parameters...> all{argument<Parameters>(call, ints, floats)...};
        auto run = [&](Parameters... parameters) -> Result { return invoke<Result>(callable, context, parameters...); };
        if constexpr (std::is_void<Result>::value) {
            std::apply(run, all);
            return sfi_u(0);
        } else {
            return passing<Result>::to(std::apply(run, all));
        }
    }
};

/* Functions of the host, which live as long as the worlds that may call them. */
using served = std::function<sfi_status(sfi_host_call *, sfi_value *)>;

inline sfi_status serve(void *user, sfi_host_call *call, sfi_value *result) noexcept
{
    try {
        return (*static_cast<served *>(user))(call, result);
    } catch (...) {
        return SFI_HOST;
    }
}

/* As `serve`, for a function that may go while it runs. */
inline sfi_status serve_shared(void *user, sfi_host_call *call, sfi_value *result) noexcept
{
    std::shared_ptr<served> kept = *static_cast<std::shared_ptr<served> *>(user);
    return serve(kept.get(), call, result);
}

struct offers {
    std::unique_ptr<sfi_config, void (*)(sfi_config *)> config{sfi_config_new(), sfi_config_free};
    std::vector<std::unique_ptr<served>> functions;
    std::vector<std::unique_ptr<std::function<bool(const char *, const char *, bool)>>> permissions;
};

struct opened {
    explicit opened(std::shared_ptr<offers> offers) : keeps(std::move(offers)) {}
    opened(const opened &) = delete;
    opened &operator=(const opened &) = delete;
    ~opened() { sfi_world_close(world, nullptr); }
    std::shared_ptr<offers> keeps;
    sfi_world *world = nullptr;
    std::vector<std::unique_ptr<served>> lent;
};

} // namespace detail

/* A call of a function of the host, while the function runs. */
class host_call {
public:
    explicit host_call(sfi_host_call *call) : call_(call) {}
    /* The name of the calling domain. */
    const char *caller() const { return sfi_host_caller(call_); }
    /* Copy the caller's memory, which is checked. */
    void read(ptr from, void *to, size_t size) const { detail::checked(sfi_host_read, call_, from.value, to, size); }
    void write(ptr to, const void *from, size_t size) const { detail::checked(sfi_host_write, call_, to.value, from, size); }
    template <class T>
    T read(ptr from) const
    {
        static_assert(std::is_trivially_copyable<T>::value, "a type of plain bytes");
        T value;
        read(from, &value, sizeof value);
        return value;
    }
    /* The domain chooses the size, so the host says how much it takes: SFI_BOUNDS beyond it. */
    std::string string(ptr from, uint64_t size, size_t most = 1 << 20) const
    {
        if (size > most) throw error(SFI_BOUNDS, nullptr);
        std::string text(static_cast<size_t>(size), '\0');
        read(from, &text[0], text.size());
        return text;
    }
    /* A C string of at most `most` bytes with its end. */
    std::string c_string(ptr from, size_t most) const
    {
        std::vector<char> text(most + 1);
        detail::checked(sfi_host_read_string, call_, from.value, text.data(), most);
        return text.data();
    }
    /* Calls a function of the caller that it passed. */
    template <class Result, class... Parameters>
    Result call(ptr function, Parameters... parameters) const
    {
        std::string signature = detail::signature<Result(Parameters...)>::text();
        sfi_value arguments[sizeof...(Parameters) + 1] = {detail::passing<Parameters>::to(parameters)...}, result = sfi_u(0);
        detail::checked(sfi_host_callback, call_, function.value, signature.c_str(), static_cast<const sfi_value *>(arguments),
                        sizeof...(Parameters), &result);
        return detail::passing<Result>::from(result);
    }

private:
    sfi_host_call *call_;
};

namespace detail {

template <class Function, class Callable>
std::unique_ptr<served> served_by(Callable callable)
{
    return std::make_unique<served>([callable = std::move(callable)](sfi_host_call *call, sfi_value *result) mutable {
        host_call context(call);
        *result = signature<Function>::serve(callable, call, context);
        return SFI_OK;
    });
}

} // namespace detail

/* The functions and rules that the host offers to worlds. A world keeps those that it was opened
 * with. */
class config {
public:
    config() : offers_(std::make_shared<detail::offers>()) {}
    /* Offers a function. It takes a sfi::host_call & before the parameters if it wants one. */
    template <class Function, class Callable>
    config &offer(const char *name, Callable callable)
    {
        auto function = detail::served_by<Function>(std::move(callable));
        detail::checked(sfi_config_function, get(), name, detail::serve, static_cast<void *>(function.get()));
        offers_->functions.push_back(std::move(function));
        return *this;
    }
    config &permit(const char *client, const char *entry)
    {
        detail::checked(sfi_config_permit, get(), client, entry);
        return *this;
    }
    /* Sets the function that has the last word on connections. */
    config &permission(std::function<bool(const char *client, const char *entry, bool permitted)> function)
    {
        using asked = std::function<bool(const char *, const char *, bool)>;
        auto own = std::make_unique<asked>(std::move(function));
        sfi_permission_fn ask = [](void *user, const char *client, const char *entry, int permitted) noexcept -> int {
            try {
                return (*static_cast<asked *>(user))(client, entry, permitted != 0);
            } catch (...) {
                return 0;
            }
        };
        detail::checked(sfi_config_permission, get(), ask, static_cast<void *>(own.get()));
        offers_->permissions.push_back(std::move(own));
        return *this;
    }
    config &limits(sfi_limits limits)
    {
        detail::checked(sfi_config_limits, get(), limits);
        return *this;
    }
    config &clock()
    {
        detail::checked(sfi_config_clock, get());
        return *this;
    }
    config &interruptible()
    {
        detail::checked(sfi_config_interruptible, get());
        return *this;
    }
    /* What threads do that find a world in use: SFI_SHARE_REFUSE, _LOCK or _QUEUE. */
    config &sharing(int sharing)
    {
        detail::checked(sfi_config_sharing, get(), sharing);
        return *this;
    }
    config &one_thread()
    {
        detail::checked(sfi_config_one_thread, get());
        return *this;
    }
    /* For functions of sfi.h that are not wrapped. */
    sfi_config *get() const noexcept { return offers_->config.get(); }

private:
    friend class world;
    friend class world_template;
    friend class lanes;
    std::shared_ptr<detail::offers> offers_;
};

} // namespace sfi

#endif /* SFI_CONFIG_HPP */
