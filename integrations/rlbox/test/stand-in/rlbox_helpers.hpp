/* What a plugin of RLBox needs of RLBox itself, for tests without it: the checks, which throw. */
#pragma once

#include <stdexcept>

namespace rlbox {
namespace detail {

inline void dynamic_check(bool holds, const char *message)
{
    if (!holds) throw std::runtime_error(message);
}

} // namespace detail
} // namespace rlbox
