// Writes the kept rows of a seal as contiguous Arrow buffers, each at the place where the IPC stream wants it.
// The specification is fill-js.ts; both give equal bytes.
#include <cstring>

#include "entries.h"

namespace segment {

namespace {

// Where one column goes: byte offsets in the stream, -1: not there. `row` and `bytes` are what is written so far.
struct Target {
  uint8_t* validity;
  int32_t* offsets;
  uint8_t* data;
  size_t bytes;
};

void set_bits(uint8_t* to, size_t at, size_t count) {
  for (; count > 0 && (at & 7); at++, count--) to[at >> 3] |= static_cast<uint8_t>(1 << (at & 7));
  std::memset(to + (at >> 3), 0xff, count >> 3);
  for (at += count & ~size_t{7}, count &= 7; count > 0; at++, count--)
    to[at >> 3] |= static_cast<uint8_t>(1 << (at & 7));
}

// Appends bits [from, from + count) of `source` at bit `at`; the target's bits from there on are zero.
void copy_bits(uint8_t* to, size_t at, const uint8_t* source, size_t from, size_t count) {
  for (; count > 0 && (at & 7); at++, from++, count--)
    to[at >> 3] |= static_cast<uint8_t>(((source[from >> 3] >> (from & 7)) & 1) << (at & 7));
  const unsigned shift = from & 7;
  for (; count >= 8; at += 8, from += 8, count -= 8) {
    const uint8_t* byte = source + (from >> 3);
    to[at >> 3] = shift == 0 ? *byte : static_cast<uint8_t>((byte[0] >> shift) | (byte[1] << (8 - shift)));
  }
  for (; count > 0; at++, from++, count--)
    to[at >> 3] |= static_cast<uint8_t>(((source[from >> 3] >> (from & 7)) & 1) << (at & 7));
}

void append_column(const Column& column, Target& target, uint32_t from, uint32_t to, size_t row) {
  const size_t count = to - from;
  if (target.validity != nullptr) {
    if (column.validity == nullptr) set_bits(target.validity, row, count);
    else copy_bits(target.validity, row, column.validity, from, count);
  }
  if (column.kind == BINARY) {
    const int32_t begin = column.offsets[from], shift = static_cast<int32_t>(target.bytes) - begin;
    const size_t bytes = static_cast<size_t>(column.offsets[to] - begin);
    int32_t* offsets = target.offsets + row + 1;
    for (uint32_t i = from + 1; i <= to; i++) *offsets++ = column.offsets[i] + shift;
    if (target.data != nullptr) std::memcpy(target.data + target.bytes, column.data + begin, bytes);
    target.bytes += bytes;
  } else if (column.kind == BOOL) {
    copy_bits(target.data, row, column.data, from, count);
  } else {
    const size_t width = width_of(column.kind);
    std::memcpy(target.data + row * width, column.data + from * width, count * width);
  }
}

void append_requests(const std::vector<Entry>& entries, const uint8_t* keep, int64_t* received, int64_t* sequences) {
  for (const Entry& entry : entries) {
    for (size_t r = 0; r < entry.request_count; r++) {
      const int64_t sequence = static_cast<int64_t>(entry.requests[3 * r]);
      const int64_t micros = static_cast<int64_t>(entry.requests[3 * r + 1]) * 1000;
      for (size_t rows = static_cast<size_t>(entry.requests[3 * r + 2]); rows > 0; rows--) {
        if (!*keep++ || entry.is_delete) continue;
        *received++ = micros;
        *sequences++ = sequence;
      }
    }
  }
}

}  // namespace

// segmentFill(batches, requests, kinds, keep, out, places): writes into `out`. Places: received-at, sequence, then
// validity, offsets, data of each batch column. Bitmaps and first offsets are zero already.
napi_value fill(napi_env env, napi_callback_info info) {
  size_t count = 6, keep_length = 0, out_length = 0, place_count = 0;
  napi_value arguments[6];
  std::vector<Entry> entries;
  uint8_t *keep = nullptr, *out = nullptr;
  double* places = nullptr;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  if (count < 6 || !read_entries(env, arguments, entries)) return nullptr;
  if (napi_get_typedarray_info(env, arguments[3], nullptr, &keep_length, reinterpret_cast<void**>(&keep), nullptr,
                               nullptr) != napi_ok ||
      napi_get_typedarray_info(env, arguments[4], nullptr, &out_length, reinterpret_cast<void**>(&out), nullptr,
                               nullptr) != napi_ok ||
      napi_get_typedarray_info(env, arguments[5], nullptr, &place_count, reinterpret_cast<void**>(&places), nullptr,
                               nullptr) != napi_ok) {
    napi_throw_type_error(env, nullptr, "segmentFill takes keep, out and places");
    return nullptr;
  }
  const auto at = [&](double place) { return place < 0 ? nullptr : out + static_cast<size_t>(place); };
  std::vector<Target> targets;
  for (size_t p = 2; p + 2 < place_count; p += 3)
    targets.push_back({at(places[p]), reinterpret_cast<int32_t*>(at(places[p + 1])), at(places[p + 2]), 0});
  size_t row = 0;
  each_run(entries, keep, [&](const Entry& entry, uint32_t from, uint32_t to) {
    for (size_t c = 0; c < targets.size(); c++)
      if (c != 1) append_column(entry.column(static_cast<int32_t>(c)), targets[c], from, to, row);
    row += to - from;
  });
  append_requests(entries, keep, reinterpret_cast<int64_t*>(at(places[0])), reinterpret_cast<int64_t*>(at(places[1])));
  return nullptr;
}

}  // namespace segment
