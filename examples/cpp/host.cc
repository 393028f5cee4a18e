// Loads a plugin, calls it, survives its crash, restarts it and calls it again.
#include <sfi.h>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

// An error of sfi as an exception.
struct Error : std::runtime_error {
    explicit Error(sfi_error *error) : std::runtime_error(sfi_error_message(error)), status(sfi_error_code(error))
    {
        sfi_error_free(error);
    }
    sfi_status status;
};

// Calls a function of sfi.h with a place for its error, and throws the error.
template <class Function, class... Arguments>
void checked(Function function, Arguments... arguments)
{
    sfi_error *error = nullptr;
    if (function(arguments..., &error) != SFI_OK) throw Error(error);
}

struct Free {
    void operator()(sfi_config *config) const { sfi_config_free(config); }
    void operator()(sfi_function *function) const { sfi_function_free(function); }
    void operator()(sfi_world *world) const { sfi_world_close(world, nullptr); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

// A world of domains. Opening it verifies, links, places, verifies again and seals.
class World {
public:
    World(const char *manifest, const sfi_config *config)
    {
        sfi_world *opened;
        checked(sfi_world_open, manifest, config, &opened);
        world.reset(opened);
    }
    void restart(const char *domain) { checked(sfi_world_restart, world.get(), domain); }
    sfi_world *get() const { return world.get(); }

private:
    Owned<sfi_world> world;
};

// A function of a domain that takes and returns integers. The world must outlive it.
class Function {
public:
    Function(World &world, const char *domain, const char *name, const char *signature) : world(world.get())
    {
        sfi_function *found;
        checked(sfi_function_find, this->world, domain, name, signature, &found);
        function.reset(found);
    }
    template <class... Integers>
    int64_t operator()(Integers... integers) const
    {
        sfi_value arguments[] = {sfi_i(integers)...}, result;
        checked(sfi_call, world, function.get(), arguments, sizeof...(integers), nullptr, &result);
        return result.i;
    }

private:
    sfi_world *world;
    Owned<sfi_function> function;
};

// The plugin's only way out. sfi_host_read checks the range, because the plugin chooses it. No
// exception may leave a host function.
static sfi_status log_text(void *, sfi_host_call *call, sfi_value *) noexcept
{
    char text[80];
    uint64_t pointer = sfi_host_argument(call, 0), length = sfi_host_argument(call, 1);
    if (length > sizeof text || sfi_host_read(call, pointer, text, length, nullptr) != SFI_OK) return SFI_HOST;
    std::cout << "the plugin says: ";
    std::cout.write(text, static_cast<std::streamsize>(length)) << '\n';
    return SFI_OK;
}

int main()
try {
    Owned<sfi_config> config{sfi_config_new()};
    checked(sfi_config_function, config.get(), "log", log_text, nullptr);
    World world{"domains.toml", config.get()};
    Function add{world, "plugin", "add", "(int, int) -> int"};
    Function crash{world, "plugin", "crash", "(int) -> int"};
    int64_t sum = add(2, 40);
    std::cout << "add returned " << sum << '\n';

    // A fault ends the call, not the process. The domain is dead until it is restarted.
    try {
        crash(0);
        return 1;
    } catch (const Error &error) {
        if (error.status != SFI_FAULT) throw;
        std::cout << "crash failed: " << error.what() << '\n';
    }
    world.restart("plugin");
    sum = add(2, 40);
    std::cout << "after the restart add returned " << sum << '\n';
} catch (const std::exception &error) {
    std::cerr << "host: " << error.what() << '\n';
    return 1;
}
