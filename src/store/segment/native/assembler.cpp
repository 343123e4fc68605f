// The passes over a flush's rows, but for deduplicate.cpp:
//
//   gather    copies the winning rows into contiguous Arrow buffers, at their places in the stream
//   min_max   finds the rows that hold the smallest and the largest value of a column
//
// The specification is assembler-js.ts; both give equal bytes.
#include "assembler.h"

#include <cstring>

#include "../../../parse/native/schema.h"
#include "../../../util/native/addon.h"
#include "../../../util/native/typed_array.h"
#include "parquet.h"

namespace segment {

static bool refuse(napi_env env, const char* what) {
  napi_throw_type_error(env, nullptr, what);
  return false;
}

bool read_entries(napi_env env, napi_value* arguments, std::vector<Entry>& entries) {
  uint32_t count = 0;
  Array<uint8_t> kinds;
  if (napi_get_array_length(env, arguments[0], &count) != napi_ok ||
      !read_array(env, arguments[2], napi_uint8_array, kinds) || kinds.size != count)
    return refuse(env, "a flush takes batches, requests and kinds of one length");
  entries.reserve(count);
  for (uint32_t i = 0; i < count; i++) {
    napi_handle_scope scope;
    napi_open_handle_scope(env, &scope);
    napi_value batch, requests;
    Array<uint8_t> bytes;
    Array<double> words;
    const bool good = napi_get_element(env, arguments[0], i, &batch) == napi_ok &&
                      read_array(env, batch, napi_uint8_array, bytes) &&
                      napi_get_element(env, arguments[1], i, &requests) == napi_ok &&
                      read_array(env, requests, napi_float64_array, words);
    napi_close_handle_scope(env, scope);
    if (!good || bytes.size < 24) return refuse(env, "an entry is a Uint8Array and a Float64Array");
    const int32_t* header = reinterpret_cast<const int32_t*>(bytes.data);
    entries.push_back({bytes.data, words.data, words.size / entry_words, static_cast<uint32_t>(header[2]), header[3],
                       kinds.data[i] == 1});
  }
  return true;
}

namespace {

// The buffers of one output column. A buffer that the column does not have is null. `bytes` counts
// the variable-width data so far, also where `data` is null.
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

// Appends bits [from, from + count) of `source` at bit `at`. The target's bits from there on are
// zero.
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
    const size_t width = weir::width_of(static_cast<weir::Kind>(column.kind));
    std::memcpy(target.data + row * width, column.data + from * width, count * width);
  }
}

void append_requests(const std::vector<Entry>& entries, const uint8_t* keep, int64_t* received, int64_t* sequences) {
  for (const Entry& entry : entries) {
    for (size_t r = 0; r < entry.request_count; r++) {
      const double* request = entry.requests + entry_words * r;
      const int64_t sequence = static_cast<int64_t>(request[0]);
      const int64_t step = static_cast<int64_t>(request[3]);
      int64_t micros = static_cast<int64_t>(request[1]);
      for (size_t rows = static_cast<size_t>(request[2]); rows > 0; rows--, micros += step) {
        if (!*keep++ || entry.is_delete) continue;
        *received++ = micros;
        *sequences++ = sequence;
      }
    }
  }
}

}  // namespace

// segmentGather(batches, requests, kinds, keep, out, places): copies the winning rows into
// contiguous Arrow buffers in `out`. Places: received-at, sequence, then validity, offsets, data of
// each batch column. Bitmaps and first offsets are zero before the call.
static napi_value gather(napi_env env, napi_callback_info info) {
  size_t count = 6;
  napi_value arguments[6];
  std::vector<Entry> entries;
  Array<uint8_t> keep, out;
  Array<double> places;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  if (count < 6 || !read_entries(env, arguments, entries)) return nullptr;
  if (!read_array(env, arguments[3], napi_uint8_array, keep) || !read_array(env, arguments[4], napi_uint8_array, out) ||
      !read_array(env, arguments[5], napi_float64_array, places)) {
    napi_throw_type_error(env, nullptr, "segmentGather takes keep, out and places");
    return nullptr;
  }
  const auto at = [&](double place) { return place < 0 ? nullptr : out.data + static_cast<size_t>(place); };
  std::vector<Target> targets;
  for (size_t p = 2; p + 2 < places.size; p += 3)
    targets.push_back(
        {at(places.data[p]), reinterpret_cast<int32_t*>(at(places.data[p + 1])), at(places.data[p + 2]), 0});
  size_t row = 0;
  each_run(entries, keep.data, [&](const Entry& entry, uint32_t from, uint32_t to) {
    for (size_t c = 0; c < targets.size(); c++)
      if (c != 1) append_column(entry.column(static_cast<int32_t>(c)), targets[c], from, to, row);
    row += to - from;
  });
  append_requests(entries, keep.data, reinterpret_cast<int64_t*>(at(places.data[0])),
                  reinterpret_cast<int64_t*>(at(places.data[1])));
  return nullptr;
}

namespace {

struct MinMax {
  size_t min = 0, max = 0;
};

template <class Value>
MinMax min_max_of_numbers(const uint8_t* data, size_t rows) {
  const Value* values = reinterpret_cast<const Value*>(data);
  MinMax found;
  for (size_t row = 1; row < rows; row++) {
    if (values[row] < values[found.min]) found.min = row;
    if (values[row] > values[found.max]) found.max = row;
  }
  return found;
}

// By bytes, then the shorter first.
MinMax min_max_of_texts(const int32_t* offsets, const uint8_t* data, size_t rows) {
  const auto compare = [&](size_t a, size_t b) {
    const size_t a_size = static_cast<size_t>(offsets[a + 1] - offsets[a]);
    const size_t b_size = static_cast<size_t>(offsets[b + 1] - offsets[b]);
    const int order = std::memcmp(data + offsets[a], data + offsets[b], a_size < b_size ? a_size : b_size);
    return order != 0 ? order : a_size < b_size ? -1 : a_size > b_size;
  };
  MinMax found;
  for (size_t row = 1; row < rows; row++) {
    if (compare(row, found.min) < 0) found.min = row;
    else if (compare(row, found.max) > 0) found.max = row;
  }
  return found;
}

// The `bytes` bytes at `place`; null where the stream does not hold them or they are not aligned to
// `width`.
const uint8_t* part_of(const Array<uint8_t>& stream, double place, size_t bytes, size_t width) {
  if (!(place >= 0 && place <= static_cast<double>(stream.size))) return nullptr;
  const size_t at = static_cast<size_t>(place);
  if (stream.size - at < bytes || reinterpret_cast<uintptr_t>(stream.data + at) % width != 0) return nullptr;
  return stream.data + at;
}

bool find_min_max(const Array<uint8_t>& stream, int32_t kind, double offsets_place, double data_place, size_t rows,
          MinMax& found) {
  if (kind == BINARY) {
    const int32_t* offsets = reinterpret_cast<const int32_t*>(part_of(stream, offsets_place, 4 * (rows + 1), 4));
    if (offsets == nullptr || offsets[rows] < 0) return false;
    const uint8_t* text = part_of(stream, data_place, static_cast<size_t>(offsets[rows]), 1);
    if (text != nullptr) found = min_max_of_texts(offsets, text, rows);
    return text != nullptr;
  }
  const size_t width = weir::width_of(static_cast<weir::Kind>(kind));
  const uint8_t* data = width == 0 ? nullptr : part_of(stream, data_place, width * rows, width);
  if (data == nullptr) return false;
  switch (kind) {
    case I8: return found = min_max_of_numbers<int8_t>(data, rows), true;
    case I16: return found = min_max_of_numbers<int16_t>(data, rows), true;
    case I32: return found = min_max_of_numbers<int32_t>(data, rows), true;
    case I64: return found = min_max_of_numbers<int64_t>(data, rows), true;
    default: return false;
  }
}

}  // namespace

// segmentMinMax(stream, kind, offsets, data, rows): [row of the smallest value, row of the
// largest], of equal values the first row. At least one row.
static napi_value min_max(napi_env env, napi_callback_info info) {
  size_t count = 5;
  napi_value arguments[5], result, row;
  Array<uint8_t> stream;
  int32_t kind = 0;
  uint32_t rows = 0;
  double offsets = -1, data = -1;
  MinMax found;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  if (count < 5 || !read_array(env, arguments[0], napi_uint8_array, stream) ||
      napi_get_value_int32(env, arguments[1], &kind) != napi_ok ||
      napi_get_value_double(env, arguments[2], &offsets) != napi_ok ||
      napi_get_value_double(env, arguments[3], &data) != napi_ok ||
      napi_get_value_uint32(env, arguments[4], &rows) != napi_ok || rows == 0 ||
      !find_min_max(stream, kind, offsets, data, rows, found)) {
    napi_throw_type_error(env, nullptr, "segmentMinMax: the column is not in the stream");
    return nullptr;
  }
  napi_create_array_with_length(env, 2, &result);
  napi_create_double(env, static_cast<double>(found.min), &row);
  napi_set_element(env, result, 0, row);
  napi_create_double(env, static_cast<double>(found.max), &row);
  napi_set_element(env, result, 1, row);
  return result;
}

}  // namespace segment

void init_segment(napi_env env, napi_value exports) {
  add_function(env, exports, "segmentDeduplicate", segment::deduplicate);
  add_function(env, exports, "segmentGather", segment::gather);
  add_function(env, exports, "segmentMinMax", segment::min_max);
  add_function(env, exports, "parquetEncode", parquet::encode);
}
