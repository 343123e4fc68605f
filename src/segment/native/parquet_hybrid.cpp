// Parquet's hybrid of runs and bit packing, for definition levels and for a dictionary's indexes.
#include "parquet.h"

namespace parquet {

namespace {

uint8_t* put_varint(uint8_t* to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<uint8_t>(value | 0x80);
  *to++ = static_cast<uint8_t>(value);
  return to;
}

// Eight values of `width` bits, at most 16 each, as `width` bytes. Writes 16 bytes.
uint8_t* put_eight(uint8_t* to, const uint16_t* values, unsigned width) {
  unsigned __int128 bits = 0;
  for (unsigned i = 0; i < 8; i++) bits |= static_cast<unsigned __int128>(values[i]) << (i * width);
  std::memcpy(to, &bits, sizeof bits);
  return to + width;
}

// Fewer than this many equal values in a row are packed: below that a run costs more than it saves.
constexpr size_t RUN_MIN = 24;
// Groups of eight in one packed stretch: its header is one byte.
constexpr size_t GROUPS_MAX = 63;

}  // namespace

size_t levels_bytes_max(size_t rows) { return 4 + 10 + rows / 8 + 1; }

uint8_t* put_levels(uint8_t* to, const Column& column, size_t from, size_t end, size_t nulls) {
  const size_t rows = end - from;
  uint8_t* at = to + 4;
  if (nulls == 0 || nulls == rows) {
    at = put_varint(at, static_cast<uint64_t>(rows) << 1);
    *at++ = nulls == 0 ? 1 : 0;
  } else {
    // A bitmap is the packed form already; `from` is a multiple of eight, and the bits behind the last row are zero.
    const size_t groups = (rows + 7) / 8;
    at = put_varint(at, groups << 1 | 1);
    std::memcpy(at, column.validity + from / 8, groups);
    at += groups;
  }
  const uint32_t length = static_cast<uint32_t>(at - to - 4);
  std::memcpy(to, &length, 4);
  return at;
}

size_t indexes_bytes_max(size_t count, unsigned width) {
  const size_t groups = count / 8 + 1;
  // Each group at worst a stretch of its own with a header, and room for put_eight's last 16 bytes.
  return groups * (width + 1) + (count / RUN_MIN + 1) * 8 + 32;
}

uint8_t* put_indexes(uint8_t* to, const uint16_t* indexes, size_t count, unsigned width) {
  uint8_t* header = nullptr;  // of the packed stretch that is open
  size_t groups = 0;
  for (size_t i = 0; i < count;) {
    size_t run = 1;
    while (i + run < count && indexes[i + run] == indexes[i]) run++;
    if (run >= RUN_MIN) {
      if (header != nullptr) *header = static_cast<uint8_t>(groups << 1 | 1), header = nullptr;
      to = put_varint(to, static_cast<uint64_t>(run) << 1);
      *to++ = static_cast<uint8_t>(indexes[i]);
      if (width > 8) *to++ = static_cast<uint8_t>(indexes[i] >> 8);
      i += run;
      continue;
    }
    if (header == nullptr) header = to++, groups = 0;
    uint16_t eight[8] = {};
    const size_t taken = count - i < 8 ? count - i : 8;  // fewer only at the end, where zeros fill up
    std::memcpy(eight, indexes + i, taken * sizeof *eight);
    to = put_eight(to, eight, width);
    i += taken;
    if (++groups == GROUPS_MAX) *header = static_cast<uint8_t>(groups << 1 | 1), header = nullptr;
  }
  if (header != nullptr) *header = static_cast<uint8_t>(groups << 1 | 1);
  return to;
}

}  // namespace parquet
