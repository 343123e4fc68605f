// Escapes are checked once for a whole body, so that strings that no column reads need no check of
// their own.
#include "document.h"

namespace weir {

static int hex(uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The code unit of \uXXXX at `at`, or -1 where there is no such escape.
static int code_unit(const uint8_t* at, const uint8_t* end) {
  if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
  int a = hex(at[2]), b = hex(at[3]), c = hex(at[4]), d = hex(at[5]);
  return a < 0 || b < 0 || c < 0 || d < 0 ? -1 : a << 12 | b << 8 | c << 4 | d;
}

static bool is_high(int unit) { return unit >= 0xd800 && unit <= 0xdbff; }
static bool is_low(int unit) { return unit >= 0xdc00 && unit <= 0xdfff; }

bool escapes_valid(const uint8_t* at, const uint8_t* end) {
  while ((at = static_cast<const uint8_t*>(std::memchr(at, '\\', end - at))) != nullptr) {
    if (end - at < 2) return false;
    if (at[1] != 'u') {
      if (at[1] == 0 || std::strchr("\"\\/bfnrt", at[1]) == nullptr) return false;
      at += 2;
      continue;
    }
    int unit = code_unit(at, end);
    if (unit < 0 || is_low(unit)) return false;
    at += 6;
    if (!is_high(unit)) continue;
    if (!is_low(code_unit(at, end))) return false;
    at += 6;
  }
  return true;
}

static uint8_t* put_utf8(uint8_t* out, uint32_t code) {
  if (code < 0x80) {
    *out++ = static_cast<uint8_t>(code);
  } else if (code < 0x800) {
    *out++ = static_cast<uint8_t>(0xc0 | code >> 6);
    *out++ = static_cast<uint8_t>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    *out++ = static_cast<uint8_t>(0xe0 | code >> 12);
    *out++ = static_cast<uint8_t>(0x80 | (code >> 6 & 0x3f));
    *out++ = static_cast<uint8_t>(0x80 | (code & 0x3f));
  } else {
    *out++ = static_cast<uint8_t>(0xf0 | code >> 18);
    *out++ = static_cast<uint8_t>(0x80 | (code >> 12 & 0x3f));
    *out++ = static_cast<uint8_t>(0x80 | (code >> 6 & 0x3f));
    *out++ = static_cast<uint8_t>(0x80 | (code & 0x3f));
  }
  return out;
}

static uint8_t plain(uint8_t letter) {
  switch (letter) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return letter;
  }
}

size_t unescape(const char* from, size_t bytes, uint8_t* out) {
  const uint8_t* at = reinterpret_cast<const uint8_t*>(from);
  const uint8_t* end = at + bytes;
  uint8_t* to = out;
  while (at != end) {
    const uint8_t* escape = static_cast<const uint8_t*>(std::memchr(at, '\\', end - at));
    size_t run = (escape == nullptr ? end : escape) - at;
    std::memcpy(to, at, run);
    to += run;
    at += run;
    if (escape == nullptr) break;
    if (at[1] != 'u') {
      *to++ = plain(at[1]);
      at += 2;
      continue;
    }
    uint32_t code = static_cast<uint32_t>(code_unit(at, end));
    at += 6;
    if (is_high(static_cast<int>(code))) {
      code = 0x10000 + ((code - 0xd800) << 10) + (static_cast<uint32_t>(code_unit(at, end)) - 0xdc00);
      at += 6;
    }
    to = put_utf8(to, code);
  }
  return static_cast<size_t>(to - out);
}

}  // namespace weir
