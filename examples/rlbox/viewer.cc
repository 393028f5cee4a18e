// Shows the outline of an XML or SVG file. expat reads the file in a sandbox. Everything that comes
// from expat is tainted: the compiler refuses to use it before it was verified.
#ifdef WITH_RLBOX
#include "rlbox.hpp"
#else
#include "tainted.hpp"
#endif
#include "rlbox_sfi_sandbox.hpp"

#include <expat.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/random.h>

using library = rlbox::rlbox_sfi_sandbox;
using box = rlbox::rlbox_sandbox<library>;
template <class T>
using tainted = rlbox::tainted<T, library>;

namespace {

struct outline {
    int depth = 0;
    long elements = 0, characters = 0;
} seen;

// A name to print: short, and without control characters for the terminal.
std::string printable(tainted<const char *> text)
{
    auto copy = text.copy_and_verify_string([](std::unique_ptr<char[]> name) {
        if (name && std::strlen(name.get()) > 60) name[60] = 0;
        return name;
    });
    std::string name = copy ? copy.get() : "(null)";
    for (char &c : name)
        if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
    return name;
}

void on_start(box &, tainted<void *>, tainted<const char *> name, tainted<const char **> attributes)
{
    std::cout << std::string(static_cast<size_t>(2 * seen.depth), ' ') << printable(name);
    // The list is the library's: it ends where the viewer says, if not before.
    for (int i = 0; i < 8; i += 2) {
        tainted<const char *> key = attributes[i];
        if (key == nullptr) break;
        tainted<const char *> value = attributes[i + 1];
        std::cout << " " << printable(key) << "=" << printable(value);
    }
    std::cout << "\n";
    if (++seen.depth > 100) throw std::runtime_error("the document is nested too deeply");
    ++seen.elements;
}

void on_end(box &, tainted<void *>, tainted<const char *>)
{
    if (--seen.depth < 0) throw std::runtime_error("more ends than starts");
}

void on_text(box &, tainted<void *>, tainted<const char *>, tainted<int> length)
{
    seen.characters += length.copy_and_verify([](int n) { return n < 0 || n > 1 << 20 ? 0 : n; });
}

// Random bytes for the hashes of expat.
sfi_status random_bytes(void *, sfi_host_call *call, sfi_value *)
{
    char bytes[64];
    uint64_t size = sfi_host_argument(call, 1);
    if (size > sizeof bytes || getrandom(bytes, size, 0) != static_cast<ssize_t>(size)) return SFI_HOST;
    return sfi_host_write(call, sfi_host_argument(call, 0), bytes, size, nullptr);
}

void show(box &sandbox, const std::string &text)
{
    auto start = sandbox.register_callback(on_start);
    auto end = sandbox.register_callback(on_end);
    auto characters = sandbox.register_callback(on_text);
    auto parser = sandbox_invoke(sandbox, XML_ParserCreate, nullptr);
    sandbox_invoke(sandbox, XML_SetElementHandler, parser, start, end);
    sandbox_invoke(sandbox, XML_SetCharacterDataHandler, parser, characters);

    auto size = static_cast<uint32_t>(text.size());
    tainted<char *> copy = sandbox.malloc_in_sandbox<char>(size + 1);
    if (copy == nullptr) throw std::runtime_error("the file does not fit into the sandbox");
    rlbox::memcpy(sandbox, copy, text.c_str(), size + 1);
    auto status = sandbox_invoke(sandbox, XML_Parse, parser, copy, static_cast<int>(size), 1);
    if (status.copy_and_verify([](XML_Status verdict) { return verdict != XML_STATUS_OK; })) {
        auto line = sandbox_invoke(sandbox, XML_GetCurrentLineNumber, parser).copy_and_verify([](unsigned long n) { return n; });
        auto code = sandbox_invoke(sandbox, XML_GetErrorCode, parser);
        std::cout << "line " << line << ": " << printable(sandbox_invoke(sandbox, XML_ErrorString, code)) << "\n";
    }
    sandbox_invoke(sandbox, XML_ParserFree, parser);
    sandbox.free_in_sandbox(copy);
    std::cout << seen.elements << " elements, " << seen.characters << " characters\n";
}

} // namespace

int main(int count, char **files)
{
    sfi_config *config = sfi_config_new();
    sfi_config_function(config, "random", random_bytes, nullptr, nullptr);
    sfi_config_limits(config, sfi_limits{10'000'000'000, 0}, nullptr);
    rlbox::rlbox_sfi_options options;
    options.config = config;
    for (int i = 1; i < count; ++i) {
        std::ifstream file(files[i], std::ios::binary);
        std::string text((std::istreambuf_iterator<char>(file)), {});
        std::cout << files[i] << "\n";
        seen = {};
        try {
            box sandbox;
            sandbox.create_sandbox("expat.toml", options);
            show(sandbox, text);
            sandbox.destroy_sandbox();
        } catch (const std::exception &error) {
            std::cout << "error: " << error.what() << "\n";
        }
    }
    sfi_config_free(config);
}
