// parquetEncode: JavaScript's arguments become columns, the columns a file. Every place is checked against the stream
// before a byte of it is read, text offsets included.
#include "parquet.h"

#include "../../util/native/addon.h"
#include "../../util/native/typed_array.h"
#include "parquet_calls.h"

namespace parquet {

namespace {

constexpr size_t HEAD_WORDS = 2, COLUMN_WORDS = 5;
// Lengths in a page header are 32 bits.
constexpr size_t STREAM_BYTES_MAX = size_t{1} << 30;

size_t width_of(Type type) {
  switch (type) {
    case INT8: return 1;
    case INT16: return 2;
    case FLOAT: case INT32: case DATE: return 4;
    case DOUBLE: case INT64: case TIMESTAMP: return 8;
    default: return 0;
  }
}

// Sums and checks offsets without a branch per row: ascending from 0, their end inside the stream.
bool ascend(const int32_t* offsets, size_t rows, size_t bytes_max) {
  uint32_t sign = static_cast<uint32_t>(offsets[0]);
  if (offsets[0] != 0) return false;
  for (size_t row = 0; row < rows; row++)
    sign |= static_cast<uint32_t>(offsets[row + 1]) | (static_cast<uint32_t>(offsets[row + 1]) - static_cast<uint32_t>(offsets[row]));
  return sign >> 31 == 0 && static_cast<size_t>(offsets[rows]) <= bytes_max;
}

// Words of a column: type, flags, places of validity, offsets and data (-1: none).
bool read_column(const double* words, size_t rows, const Array<uint8_t>& stream, Column& column) {
  if (!(words[0] >= BOOLEAN && words[0] <= JSON && words[1] >= 0 && words[1] < 8)) return false;
  column.type = static_cast<Type>(words[0]);
  column.flags = static_cast<int>(words[1]);
  const uint8_t* places[3] = {nullptr, nullptr, nullptr};
  const size_t bits = (rows + 7) / 8, width = width_of(column.type);
  const size_t bytes[3] = {bits, 4 * (rows + 1),
                           column.type == BOOLEAN ? bits : width * rows};
  size_t at[3] = {};
  for (int i = 0; i < 3; i++) {
    const double place = words[2 + i];
    if (place == -1) continue;
    if (!(place >= 0 && place <= static_cast<double>(stream.size))) return false;
    at[i] = static_cast<size_t>(place);
    if (at[i] % 8 != 0 || stream.size - at[i] < bytes[i]) return false;
    places[i] = stream.data + at[i];
  }
  column.validity = places[0];
  column.offsets = reinterpret_cast<const int32_t*>(places[1]);
  column.data = places[2];
  if (column.data == nullptr || column.is_text() != (column.offsets != nullptr)) return false;
  if (column.validity != nullptr && !(column.flags & OPTIONAL)) return false;
  return column.offsets == nullptr || ascend(column.offsets, rows, stream.size - at[2]);
}

bool read_texts(const Array<uint8_t>& text, const Array<double>& lengths, std::vector<Text>& texts) {
  size_t at = 0;
  for (size_t i = 0; i < lengths.size; i++) {
    if (!(lengths.data[i] >= 0 && lengths.data[i] <= static_cast<double>(text.size - at))) return false;
    texts.push_back({text.data + at, static_cast<size_t>(lengths.data[i])});
    at += texts.back().size;
  }
  return at == text.size;
}

size_t write_file(Sink& file, const std::vector<Column>& columns, const std::vector<Text>& pairs, size_t rows,
                  size_t group_rows) {
  Workspace workspace;
  std::vector<Chunk> chunks;
  file.put("PAR1", 4);
  for (size_t from = 0; from < rows && !file.is_full; from += group_rows)
    for (const Column& column : columns)
      chunks.push_back(put_chunk(file, workspace, column, from, rows - from > group_rows ? from + group_rows : rows));
  put_footer(file, columns, pairs, rows, chunks);
  return file.is_full ? 0 : file.size();
}

}  // namespace

napi_value encode(napi_env env, napi_callback_info info) {
  size_t count = 5;
  napi_value arguments[5], result;
  Array<uint8_t> stream, out, text;
  Array<double> words, lengths;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  const bool is_read = count >= 5 && read_array(env, arguments[0], napi_uint8_array, stream) &&
                       read_array(env, arguments[1], napi_uint8_array, out) &&
                       read_array(env, arguments[2], napi_float64_array, words) &&
                       read_array(env, arguments[3], napi_uint8_array, text) &&
                       read_array(env, arguments[4], napi_float64_array, lengths);
  const size_t column_count = is_read && words.size > HEAD_WORDS ? (words.size - HEAD_WORDS) / COLUMN_WORDS : 0;
  std::vector<Column> columns(column_count);
  std::vector<Text> texts;
  bool is_good = column_count > 0 && stream.size <= STREAM_BYTES_MAX && words.data[0] >= 1 &&
                 words.data[0] <= INT32_MAX && words.data[1] >= 8 && words.data[1] <= INT32_MAX &&
                 reinterpret_cast<uintptr_t>(stream.data) % 8 == 0 && read_texts(text, lengths, texts) &&
                 texts.size() >= column_count;
  const size_t rows = is_good ? static_cast<size_t>(words.data[0]) : 0;
  const size_t group_rows = is_good ? static_cast<size_t>(words.data[1]) : 0;
  is_good = is_good && group_rows % 8 == 0;
  for (size_t c = 0; c < column_count && is_good; c++) {
    is_good = read_column(words.data + HEAD_WORDS + COLUMN_WORDS * c, rows, stream, columns[c]);
    columns[c].name = texts[c];
  }
  if (!is_good) {
    napi_throw_type_error(env, nullptr, "parquetEncode: the columns do not stand in the stream");
    return nullptr;
  }
  Sink file(out.data, out.size);
  texts.erase(texts.begin(), texts.begin() + static_cast<ptrdiff_t>(column_count));
  napi_create_double(env, static_cast<double>(write_file(file, columns, texts, rows, group_rows)), &result);
  return result;
}

}  // namespace parquet
