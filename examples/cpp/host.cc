// Loads a plugin, calls it, survives its crash, restarts it and calls it again.
#include <sfi.hpp>

#include <iostream>

int main()
try {
    sfi::config config;
    // The plugin's only way out. `string` checks the range, because the plugin chooses it.
    config.offer<void(sfi::ptr, uint64_t)>("log", [](sfi::host_call &call, sfi::ptr text, uint64_t length) {
        std::cout << "the plugin says: " << call.string(text, length) << '\n';
    });
    sfi::world world("domains.toml", config);
    auto add = world.find<long(long, long)>("plugin", "add");
    auto crash = world.find<int(sfi::ptr)>("plugin", "crash");
    long sum = add(2, 40);
    std::cout << "add returned " << sum << '\n';

    // A fault ends the call, not the process. The domain is dead until it is restarted.
    try {
        crash(sfi::ptr{});
        return 1;
    } catch (const sfi::error &error) {
        if (error.status() != SFI_FAULT) throw;
        std::cout << "crash failed: " << error.what() << '\n';
    }
    world.restart("plugin");
    sum = add(2, 40);
    std::cout << "after the restart add returned " << sum << '\n';
} catch (const std::exception &error) {
    std::cerr << "host: " << error.what() << '\n';
    return 1;
}
