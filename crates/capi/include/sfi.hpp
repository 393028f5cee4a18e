/* sfi for hosts in C++17: sfi.h with types, owners and exceptions. Header only.
 *
 *     sfi::config config;
 *     config.offer<int(sfi::ptr, int)>("log", [](sfi::host_call &call, sfi::ptr text, int length) {
 *         std::cout << call.string(text, length);
 *         return 0;
 *     });
 *     sfi::world world("domains.toml", config);
 *     auto add = world.find<int(int, int)>("plugin", "add");
 *     try {
 *         std::cout << add(2, 40);
 *     } catch (const sfi::error &error) {
 *         std::cerr << error.what();
 *     }
 *
 * The types of a function become its signature: integers and enumerations are `int`, float and
 * double are `float`, sfi::ptr is `ptr`. They are a convention between the host and the domain's
 * author, as in C. sfi.h states the rules for threads, signals and host functions.
 *
 * A failure is the exception sfi::error. An exception that leaves a function of the host fails that
 * call: the domain gets its import's `on_fault`, and the exception goes no further.
 */
#ifndef SFI_HPP
#define SFI_HPP

#include "sfi_abi.hpp"
#include "sfi_config.hpp"

#include <chrono>

namespace sfi {

namespace detail {

/* The nanoseconds of a bounded wait. */
inline uint64_t bound(std::chrono::nanoseconds wait) { return wait.count() > 0 ? static_cast<uint64_t>(wait.count()) : 0; }

} // namespace detail

/* Shows the code of all domains that this process loads from now on to the tools SFI_DEBUG_... */
inline void debug_show(int tools) { detail::checked(sfi_debug_show, tools); }

template <class Function>
class function;

/* A function of a domain. It keeps its world open. */
template <class Result, class... Parameters>
class function<Result(Parameters...)> {
public:
    Result operator()(Parameters... parameters) const { return call(nullptr, parameters...); }
    /* Calls with limits of its own. The world needs limits (sfi::config::limits). */
    Result within(sfi_limits limits, Parameters... parameters) const { return call(&limits, parameters...); }

private:
    friend class world;
    function(std::shared_ptr<detail::opened> opened, sfi_function *found)
        : opened_(std::move(opened)), function_(found, sfi_function_free)
    {
    }
    Result call(const sfi_limits *limits, Parameters... parameters) const
    {
        sfi_value arguments[sizeof...(Parameters) + 1] = {detail::passing<Parameters>::to(parameters)...}, result = sfi_u(0);
        detail::checked(sfi_call, opened_->world, static_cast<const sfi_function *>(function_.get()),
                        static_cast<const sfi_value *>(arguments), sizeof...(Parameters), limits, &result);
        return detail::passing<Result>::from(result);
    }
    std::shared_ptr<detail::opened> opened_;
    std::shared_ptr<sfi_function> function_;
};

template <class Function>
class prepared;

/* A function that is called very often: a call allocates nothing and looks nothing up. */
template <class Result, class... Parameters>
class prepared<Result(Parameters...)> {
public:
    Result operator()(Parameters... parameters)
    {
        sfi_value arguments[sizeof...(Parameters) + 1] = {detail::passing<Parameters>::to(parameters)...}, result = sfi_u(0);
        detail::checked(sfi_prepared_call, opened_->world, prepared_.get(), static_cast<const sfi_value *>(arguments), &result);
        return detail::passing<Result>::from(result);
    }
    /* Makes room for the arguments of the next call, where host and callee both reach it. */
    void *room(size_t size)
    {
        void *room = nullptr;
        detail::checked(sfi_prepared_room, opened_->world, prepared_.get(), size, &room);
        return room;
    }
    /* The pointer to the room, or to a place within it, that the callee gets as an argument. */
    static ptr argument(const void *room) { return ptr{reinterpret_cast<uintptr_t>(room)}; }
    /* The host's address of memory of the domain, until the next use of the world. */
    const void *view(ptr from, size_t size)
    {
        const void *memory = nullptr;
        detail::checked(sfi_prepared_view, opened_->world, prepared_.get(), from.value, size, &memory);
        return memory;
    }

private:
    friend class world;
    prepared(std::shared_ptr<detail::opened> opened, sfi_prepared *made)
        : opened_(std::move(opened)), prepared_(made, sfi_prepared_free)
    {
    }
    std::shared_ptr<detail::opened> opened_;
    std::unique_ptr<sfi_prepared, void (*)(sfi_prepared *)> prepared_;
};

template <class Function>
class code;

/* A function of a domain by its pointer, with structures of any size by value (sfi_abi.hpp). */
template <class Result, class... Parameters>
class code<Result(Parameters...)> {
public:
    Result operator()(Parameters... parameters) const
    {
        static_assert(!(std::is_class<Result>::value && sizeof(std::conditional_t<std::is_void<Result>::value, char, Result>) > 16),
                      "a result of more than 16 bytes lies in memory: pass a sfi::ptr to it as the first parameter");
        abi::arguments<Parameters...> all;
        (all.add(parameters), ...);
        detail::checked(sfi_code_call, opened_->world, static_cast<const sfi_code *>(code_.get()), all.registers());
        if constexpr (!std::is_void<Result>::value) return all.template result<Result>();
    }

private:
    friend class world;
    code(std::shared_ptr<detail::opened> opened, sfi_code *found) : opened_(std::move(opened)), code_(found, sfi_code_free) {}
    std::shared_ptr<detail::opened> opened_;
    std::shared_ptr<sfi_code> code_;
};

namespace detail {

template <class T>
constexpr bool by_value = (std::is_class<T>::value || std::is_union<T>::value) && !std::is_same<T, ptr>::value;

/* A function of the host for a function pointer, which may take and return structures by value. */
template <class Function>
struct lent;
template <class Result, class... Parameters>
struct lent<Result(Parameters...)> {
    static constexpr bool structures = (by_value<Result> || ... || by_value<Parameters>);

    static std::string text()
    {
        if constexpr (structures) return abi::signature<Result, Parameters...>();
        else return signature<Result(Parameters...)>::text();
    }
    template <class Callable>
    static std::unique_ptr<served> by(Callable callable)
    {
        if constexpr (!structures) {
            return served_by<Result(Parameters...)>(std::move(callable));
        } else {
            return std::make_unique<served>([callable = std::move(callable)](sfi_host_call *call, sfi_value *result) mutable {
                host_call context(call);
                auto run = [&](Parameters... parameters) -> Result { return invoke<Result>(callable, context, parameters...); };
                return abi::serve<Result, Parameters...>(call, result, run);
            });
        }
    }
};

} // namespace detail

/* A function of the host that a domain may call until this is destroyed, also within a call. */
class callback {
public:
    callback(callback &&) = default;
    callback(const callback &) = delete;
    callback &operator=(callback &&) = delete;
    ~callback()
    {
        if (opened_) sfi_callback_unregister(opened_->world, domain_.c_str(), name_.c_str(), nullptr);
    }
    /* The function pointer in the domain's terms. */
    sfi::ptr pointer() const noexcept { return pointer_; }

private:
    friend class world;
    callback(std::shared_ptr<detail::opened> opened, const char *domain, const char *name, const std::string &signature,
             std::unique_ptr<detail::served> function)
        : domain_(domain), name_(name), function_(std::make_unique<std::shared_ptr<detail::served>>(std::move(function)))
    {
        detail::checked(sfi_callback_register, opened->world, domain, name, signature.c_str(), detail::serve_shared,
                        static_cast<void *>(function_.get()), &pointer_.value);
        opened_ = std::move(opened);
    }
    std::shared_ptr<detail::opened> opened_;
    std::string domain_, name_;
    std::unique_ptr<std::shared_ptr<detail::served>> function_;
    sfi::ptr pointer_;
};

/* Another instance of a domain, discarded when this is destroyed. */
class instance {
public:
    instance(instance &&) = default;
    instance(const instance &) = delete;
    instance &operator=(instance &&) = delete;
    ~instance()
    {
        if (opened_) sfi_instance_discard(opened_->world, name_, nullptr);
    }
    /* Its name, for all functions that take a domain's. */
    const char *name() const noexcept { return name_; }
    /* Gives it back its first state. */
    void reset() { detail::checked(sfi_instance_reset, opened_->world, static_cast<const char *>(name_)); }

private:
    friend class world;
    instance(std::shared_ptr<detail::opened> opened, const char *domain)
    {
        detail::checked(sfi_world_instantiate, opened->world, domain, static_cast<char *>(name_), sizeof name_);
        opened_ = std::move(opened);
    }
    std::shared_ptr<detail::opened> opened_;
    char name_[256];
};

/* A world of domains. Opening it verifies, links, places, verifies again and seals. */
class world {
public:
    explicit world(const char *manifest, const config &config = {}) : opened_(std::make_shared<detail::opened>(config.offers_))
    {
        detail::checked(sfi_world_open, manifest, static_cast<const sfi_config *>(config.get()), &opened_->world);
    }
    explicit world(const std::string &manifest, const config &config = {}) : world(manifest.c_str(), config) {}
    /* Opens a world from the text of a manifest. */
    static world of_text(const char *text, const char *directory, const config &config = {})
    {
        return made(config.offers_, sfi_world_open_text, text, directory, static_cast<const sfi_config *>(config.get()));
    }
    template <class Function>
    function<Function> find(const char *domain, const char *name) const
    {
        std::string signature = detail::signature<Function>::text();
        sfi_function *found = nullptr;
        detail::checked(sfi_function_find, get(), domain, name, signature.c_str(), &found);
        return function<Function>(opened_, found);
    }
    /* Finds a function by a function pointer of the domain. */
    template <class Function>
    function<Function> at(const char *domain, ptr pointer) const
    {
        std::string signature = detail::signature<Function>::text();
        sfi_function *found = nullptr;
        detail::checked(sfi_function_at, get(), domain, pointer.value, signature.c_str(), &found);
        return function<Function>(opened_, found);
    }
    template <class Function>
    sfi::code<Function> code(const char *domain, ptr pointer) const
    {
        sfi_code *found = nullptr;
        detail::checked(sfi_code_find, get(), domain, pointer.value, &found);
        return sfi::code<Function>(opened_, found);
    }
    template <class Function>
    prepared<Function> prepare(const char *domain, const char *name) const
    {
        std::string signature = detail::signature<Function>::text();
        sfi_prepared *made = nullptr;
        detail::checked(sfi_prepare, get(), domain, name, signature.c_str(), &made);
        return prepared<Function>(opened_, made);
    }
    /* Registers a function of the host that comes and goes, also while domains run. It may take and
     * return structures by value. */
    template <class Function, class Callable>
    sfi::callback callback(const char *domain, const char *name, Callable callable)
    {
        return sfi::callback(opened_, domain, name, detail::lent<Function>::text(),
                             detail::lent<Function>::by(std::move(callable)));
    }
    sfi::instance instantiate(const char *domain) { return sfi::instance(opened_, domain); }
    /* Lends a function of the host to a domain, until it is taken back or the world ends. */
    template <class Function, class Callable>
    ptr lend(const char *domain, const char *name, Callable callable)
    {
        auto own = detail::lent<Function>::by(std::move(callable));
        std::string signature = detail::lent<Function>::text();
        ptr pointer;
        detail::checked(sfi_world_lend, get(), domain, name, signature.c_str(), detail::serve, static_cast<void *>(own.get()),
                        &pointer.value);
        opened_->lent.push_back(std::move(own));
        return pointer;
    }
    void take_back(const char *domain, const char *name) { detail::checked(sfi_world_take_back, get(), domain, name); }
    void restart(const char *domain) { detail::checked(sfi_world_restart, get(), domain); }
    void reload(const char *domain) { detail::checked(sfi_world_reload, get(), domain); }
    void reload(const char *domain, const void *object, size_t size)
    {
        detail::checked(sfi_world_reload_object, get(), domain, object, size);
    }
    void connect(const char *client, const char *symbol, const char *entry)
    {
        detail::checked(sfi_world_connect, get(), client, symbol, entry);
    }
    void disconnect(const char *client, const char *symbol)
    {
        detail::checked(sfi_world_disconnect, get(), client, symbol);
    }
    void permit(const char *client, const char *entry) { detail::checked(sfi_world_permit, get(), client, entry); }
    void refill(const char *domain) { detail::checked(sfi_world_refill, get(), domain); }
    /* The time that a domain used. */
    sfi_limits used(const char *domain) const
    {
        sfi_limits used{};
        detail::checked(sfi_world_used, get(), domain, &used.wall_ns, &used.cpu_ns);
        return used;
    }
    sfi_record record(const char *domain) const
    {
        sfi_record record{};
        detail::checked(sfi_world_record, get(), domain, &record);
        return record;
    }
    /* The names of the manifest's domains. */
    std::vector<std::string> domains() const
    {
        std::vector<std::string> names;
        while (const char *name = sfi_world_domain(get(), names.size())) names.push_back(name);
        return names;
    }
    bool dead(const char *domain) const
    {
        int dead = 0;
        detail::checked(sfi_world_state, get(), domain, &dead, static_cast<sfi_error **>(nullptr));
        return dead != 0;
    }
    /* The address of a global variable or function, in the domain's terms. */
    ptr symbol(const char *domain, const char *name) const
    {
        ptr found;
        detail::checked(sfi_world_symbol, get(), domain, name, &found.value);
        return found;
    }
    /* Copy memory of a domain, which is checked. */
    void read(const char *domain, ptr from, void *to, size_t size) const
    {
        detail::checked(sfi_world_read, get(), domain, from.value, to, size);
    }
    void write(const char *domain, ptr to, const void *from, size_t size)
    {
        detail::checked(sfi_world_write, get(), domain, to.value, from, size);
    }
    template <class T>
    T read(const char *domain, ptr from) const
    {
        static_assert(std::is_trivially_copyable<T>::value, "a type of plain bytes");
        T value;
        read(domain, from, &value, sizeof value);
        return value;
    }
    template <class T>
    void write(const char *domain, ptr to, const T &value)
    {
        static_assert(std::is_trivially_copyable<T>::value, "a type of plain bytes");
        write(domain, to, &value, sizeof value);
    }
    /* Memory of a domain's own `malloc`, which is checked. Null if it has none left. */
    ptr malloc(const char *domain, size_t size)
    {
        ptr made;
        detail::checked(sfi_world_malloc, get(), domain, size, &made.value);
        return made;
    }
    void free(const char *domain, ptr memory) { detail::checked(sfi_world_free, get(), domain, memory.value); }
    size_t region_size(const char *region) const
    {
        size_t size = 0;
        detail::checked(sfi_region_size, get(), region, &size);
        return size;
    }
    void region_read(const char *region, size_t offset, void *to, size_t size) const
    {
        detail::checked(sfi_region_read, get(), region, offset, to, size);
    }
    void region_write(const char *region, size_t offset, const void *from, size_t size)
    {
        detail::checked(sfi_region_write, get(), region, offset, from, size);
    }
    /* The address of a region for the domains that see it. */
    ptr region(const char *domain, const char *region) const
    {
        ptr found;
        detail::checked(sfi_region_in, get(), domain, region, &found.value);
        return found;
    }
    void show(const char *domain, const char *region, bool writable)
    {
        detail::checked(sfi_region_show, get(), domain, region, static_cast<int>(writable));
    }
    void hide(const char *domain, const char *region) { detail::checked(sfi_region_hide, get(), domain, region); }
    /* For functions of sfi.h that are not wrapped. */
    sfi_world *get() const noexcept { return opened_->world; }

private:
    friend class world_template;
    friend class pool;
    friend class server;
    friend class lanes;
    explicit world(std::shared_ptr<detail::opened> opened) : opened_(std::move(opened)) {}
    /* Gets a world of a function of sfi.h, whose last argument before the error is its place. */
    template <class Function, class... Arguments>
    static world made(std::shared_ptr<detail::offers> offers, Function function, Arguments... arguments)
    {
        auto opened = std::make_shared<detail::opened>(std::move(offers));
        detail::checked(function, arguments..., &opened->world);
        return world(std::move(opened));
    }
    std::shared_ptr<detail::opened> opened_;
};

/* A domain that is verified, linked and sealed once, for many worlds. It may go before they do. */
class world_template {
public:
    explicit world_template(const char *manifest, const config &config = {}) : offers_(config.offers_)
    {
        detail::checked(sfi_template_open, manifest, static_cast<const sfi_config *>(config.get()), &template_);
    }
    /* Opens a template from the text of a manifest. */
    world_template(const char *text, const char *directory, const config &config = {}) : offers_(config.offers_)
    {
        detail::checked(sfi_template_open_text, text, directory, static_cast<const sfi_config *>(config.get()), &template_);
    }
    world_template(const world_template &) = delete;
    world_template &operator=(const world_template &) = delete;
    ~world_template() { sfi_template_free(template_); }
    /* Makes a world with a place of its own. */
    sfi::world instance() const
    {
        return sfi::world::made(offers_, sfi_template_instance, static_cast<const sfi_template *>(template_));
    }

private:
    friend class pool;
    friend class server;
    std::shared_ptr<detail::offers> offers_;
    sfi_template *template_ = nullptr;
};

/* Worlds to take and give back. A world goes back, and is reset, with the last of its copies and
 * functions. */
class pool {
public:
    pool(const world_template &from, size_t capacity) : offers_(from.offers_)
    {
        detail::checked(sfi_pool_new, static_cast<const sfi_template *>(from.template_), capacity, &pool_);
    }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    ~pool() { sfi_pool_free(pool_); }
    /* Takes a world in its first state. If all are in use, it waits, or is SFI_BUSY. */
    sfi::world take(bool wait = true) const
    {
        return sfi::world::made(offers_, sfi_pool_take, static_cast<const sfi_pool *>(pool_), static_cast<int>(wait));
    }

private:
    std::shared_ptr<detail::offers> offers_;
    sfi_pool *pool_ = nullptr;
};

/* Worlds whose state stays, for the threads of a host. */
class server {
public:
    server(const world_template &from, size_t instances, size_t most_waiting) : offers_(from.offers_)
    {
        detail::checked(sfi_server_new, static_cast<const sfi_template *>(from.template_), instances, most_waiting, &server_);
    }
    server(const server &) = delete;
    server &operator=(const server &) = delete;
    ~server() { sfi_server_free(server_); }
    /* Enters a world, first come, first served. SFI_BUSY after `wait`, or if too many wait. */
    sfi::world enter(std::chrono::nanoseconds wait) const
    {
        return sfi::world::made(offers_, sfi_server_enter, static_cast<const sfi_server *>(server_), detail::bound(wait));
    }
    /* Enters a world, and waits without an end. */
    sfi::world enter() const
    {
        return sfi::world::made(offers_, sfi_server_enter, static_cast<const sfi_server *>(server_), UINT64_MAX);
    }
    size_t idle() const { return state().first; }
    size_t waiting() const { return state().second; }

private:
    std::pair<size_t, size_t> state() const
    {
        std::pair<size_t, size_t> state;
        detail::checked(sfi_server_state, static_cast<const sfi_server *>(server_), &state.first, &state.second);
        return state;
    }
    std::shared_ptr<detail::offers> offers_;
    sfi_server *server_ = nullptr;
};

/* One world for several threads at once: each enters a lane, and all lanes have the same domains. A
 * lane goes back with the last of its copies and functions. */
class lanes {
public:
    lanes(const char *manifest, size_t count, const config &config = {}) : offers_(config.offers_)
    {
        detail::checked(sfi_lanes_open, manifest, static_cast<const sfi_config *>(config.get()), count, &lanes_);
    }
    /* Opens lanes from the text of a manifest. */
    lanes(const char *text, const char *directory, size_t count, const config &config = {}) : offers_(config.offers_)
    {
        detail::checked(sfi_lanes_open_text, text, directory, static_cast<const sfi_config *>(config.get()), count, &lanes_);
    }
    lanes(const lanes &) = delete;
    lanes &operator=(const lanes &) = delete;
    ~lanes() { sfi_lanes_free(lanes_); }
    /* Enters a lane. SFI_BUSY after `wait`. */
    sfi::world enter(std::chrono::nanoseconds wait) const
    {
        return sfi::world::made(offers_, sfi_lanes_enter, static_cast<const sfi_lanes *>(lanes_), detail::bound(wait));
    }
    /* Loads a domain again for all lanes, once no thread has one. SFI_BIND after `wait`. */
    void reload(const char *domain, std::chrono::nanoseconds wait) const
    {
        detail::checked(sfi_lanes_reload, static_cast<const sfi_lanes *>(lanes_), domain, detail::bound(wait));
    }
    void reload(const char *domain, const void *object, size_t size, std::chrono::nanoseconds wait) const
    {
        detail::checked(sfi_lanes_reload_object, static_cast<const sfi_lanes *>(lanes_), domain, object, size, detail::bound(wait));
    }
    size_t count() const
    {
        size_t count = 0;
        detail::checked(sfi_lanes_count, static_cast<const sfi_lanes *>(lanes_), &count);
        return count;
    }
    size_t idle() const
    {
        size_t idle = 0;
        detail::checked(sfi_lanes_idle, static_cast<const sfi_lanes *>(lanes_), &idle);
        return idle;
    }

private:
    std::shared_ptr<detail::offers> offers_;
    sfi_lanes *lanes_ = nullptr;
};

} // namespace sfi

#endif /* SFI_HPP */
