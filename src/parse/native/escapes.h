// Escapes of JSON strings: \" \\ \/ \b \f \n \r \t \uXXXX.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weir {

// True where each backslash in [at, end) begins a valid escape, and each escaped surrogate is one
// half of a pair. The walk refuses backslashes outside strings.
bool escapes_valid(const uint8_t* at, const uint8_t* end);

// Decodes a string of valid escapes into `out`, which has room for `bytes` bytes. Returns how many
// it wrote.
size_t unescape(const char* from, size_t bytes, uint8_t* out);

}  // namespace weir
