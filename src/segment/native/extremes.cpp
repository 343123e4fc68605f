// Which rows of a column hold its smallest and its largest value, the first of equal ones.
// The specification is extremes-js.ts; both give equal rows.
#include <cstring>

#include "../../util/native/typed_array.h"
#include "entries.h"

namespace segment {

namespace {

struct Extremes {
  size_t least = 0, most = 0;
};

template <class Value>
Extremes of_numbers(const uint8_t* data, size_t rows) {
  const Value* values = reinterpret_cast<const Value*>(data);
  Extremes found;
  for (size_t row = 1; row < rows; row++) {
    if (values[row] < values[found.least]) found.least = row;
    if (values[row] > values[found.most]) found.most = row;
  }
  return found;
}

// By bytes, then the shorter first.
Extremes of_texts(const int32_t* offsets, const uint8_t* data, size_t rows) {
  const auto compare = [&](size_t a, size_t b) {
    const size_t a_size = static_cast<size_t>(offsets[a + 1] - offsets[a]);
    const size_t b_size = static_cast<size_t>(offsets[b + 1] - offsets[b]);
    const int order = std::memcmp(data + offsets[a], data + offsets[b], a_size < b_size ? a_size : b_size);
    return order != 0 ? order : a_size < b_size ? -1 : a_size > b_size;
  };
  Extremes found;
  for (size_t row = 1; row < rows; row++) {
    if (compare(row, found.least) < 0) found.least = row;
    else if (compare(row, found.most) > 0) found.most = row;
  }
  return found;
}

// Where `bytes` bytes stand at `place`; null where the stream has no such place, or none for values of `width`.
const uint8_t* part_of(const Array<uint8_t>& stream, double place, size_t bytes, size_t width) {
  if (!(place >= 0 && place <= static_cast<double>(stream.size))) return nullptr;
  const size_t at = static_cast<size_t>(place);
  if (stream.size - at < bytes || reinterpret_cast<uintptr_t>(stream.data + at) % width != 0) return nullptr;
  return stream.data + at;
}

bool find(const Array<uint8_t>& stream, int32_t kind, double offsets_place, double data_place, size_t rows,
          Extremes& found) {
  if (kind == BINARY) {
    const int32_t* offsets = reinterpret_cast<const int32_t*>(part_of(stream, offsets_place, 4 * (rows + 1), 4));
    if (offsets == nullptr || offsets[rows] < 0) return false;
    const uint8_t* text = part_of(stream, data_place, static_cast<size_t>(offsets[rows]), 1);
    if (text != nullptr) found = of_texts(offsets, text, rows);
    return text != nullptr;
  }
  const size_t width = width_of(kind);
  const uint8_t* data = width == 0 ? nullptr : part_of(stream, data_place, width * rows, width);
  if (data == nullptr) return false;
  switch (kind) {
    case I8: return found = of_numbers<int8_t>(data, rows), true;
    case I16: return found = of_numbers<int16_t>(data, rows), true;
    case I32: return found = of_numbers<int32_t>(data, rows), true;
    case I64: return found = of_numbers<int64_t>(data, rows), true;
    default: return false;
  }
}

}  // namespace

// segmentExtremes(stream, kind, offsets, data, rows): [row of the smallest, row of the largest]. At least one row.
napi_value extremes(napi_env env, napi_callback_info info) {
  size_t count = 5;
  napi_value arguments[5], result, row;
  Array<uint8_t> stream;
  int32_t kind = 0;
  uint32_t rows = 0;
  double offsets = -1, data = -1;
  Extremes found;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  if (count < 5 || !read_array(env, arguments[0], napi_uint8_array, stream) ||
      napi_get_value_int32(env, arguments[1], &kind) != napi_ok ||
      napi_get_value_double(env, arguments[2], &offsets) != napi_ok ||
      napi_get_value_double(env, arguments[3], &data) != napi_ok ||
      napi_get_value_uint32(env, arguments[4], &rows) != napi_ok || rows == 0 ||
      !find(stream, kind, offsets, data, rows, found)) {
    napi_throw_type_error(env, nullptr, "segmentExtremes: the column does not stand in the stream");
    return nullptr;
  }
  napi_create_array_with_length(env, 2, &result);
  napi_create_double(env, static_cast<double>(found.least), &row);
  napi_set_element(env, result, 0, row);
  napi_create_double(env, static_cast<double>(found.most), &row);
  napi_set_element(env, result, 1, row);
  return result;
}

}  // namespace segment
