// The bytes of a batch (format/batch.md): the header, then validity, offsets and data of each
// column, each on a multiple of 8.
#include "builders.h"

namespace weir {

constexpr uint32_t batch_magic = 0x54414257, batch_version = 1;
constexpr size_t header_words = 6, column_words = 6;

static size_t align8(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

Layout::Layout(uint32_t rows, const PayloadBuilder& payload, const Builder& key, const Builder* columns, size_t count)
    : rows_(rows), payload_(payload) {
  end_ = align8(4 * (header_words + column_words * (2 + count)));
  Place at = {Kind::binary, 0, 0, place(4 * (rows + size_t{1})), 0, 0};
  at.data_bytes = payload.offsets.data[rows];
  at.data = place(at.data_bytes);
  places_.push_back(at);
  add(key);
  for (size_t index = 0; index < count; index++) add(columns[index]);
}

size_t Layout::place(size_t bytes) {
  size_t at = end_;
  end_ = align8(at + bytes);
  return at;
}

void Layout::add(const Builder& column) {
  Place at = {column.kind(), column.nulls().size, 0, 0, 0, 0};
  if (at.nulls > 0) at.validity = place((rows_ + size_t{7}) / 8);
  if (at.kind == Kind::binary) {
    at.offsets = place(4 * (rows_ + size_t{1}));
    at.data_bytes = column.offsets().data[rows_];
  } else {
    at.data_bytes = at.kind == Kind::boolean ? (rows_ + size_t{7}) / 8 : rows_ * column.width();
  }
  at.data = place(at.data_bytes);
  columns_.push_back(&column);
  places_.push_back(at);
}

// Copies and zeroes the gap up to the next multiple of 8.
static void put(uint8_t* out, size_t at, const void* from, size_t bytes) {
  if (bytes != 0) std::memcpy(out + at, from, bytes);
  std::memset(out + at + bytes, 0, align8(at + bytes) - at - bytes);
}

// Marks all rows as valid but the null ones. The bits behind the last row are 0.
static void put_validity(uint8_t* out, uint32_t rows, const Buffer<uint32_t>& nulls) {
  size_t bytes = (rows + size_t{7}) / 8;
  std::memset(out, 0xff, bytes);
  if (rows % 8 != 0) out[bytes - 1] = static_cast<uint8_t>((1u << (rows % 8)) - 1);
  for (size_t i = 0; i < nulls.size; i++) out[nulls.data[i] / 8] &= ~(1u << (nulls.data[i] % 8));
  std::memset(out + bytes, 0, align8(bytes) - bytes);
}

static void put_bits(uint8_t* out, uint32_t rows, const uint8_t* values) {
  std::memset(out, 0, align8((rows + size_t{7}) / 8));
  for (uint32_t row = 0; row < rows; row++) out[row / 8] |= static_cast<uint8_t>(values[row] << (row % 8));
}

void Layout::write_column(uint8_t* out, const Place& at, const Builder& column) const {
  if (at.nulls > 0) put_validity(out + at.validity, rows_, column.nulls());
  if (at.kind == Kind::binary) put(out, at.offsets, column.offsets().data, 4 * (rows_ + size_t{1}));
  if (at.kind == Kind::boolean) put_bits(out + at.data, rows_, column.data().data);
  else put(out, at.data, column.data().data, at.data_bytes);
}

void Layout::write(uint8_t* out) const {
  Buffer<uint32_t> words;
  for (size_t word : {size_t{batch_magic}, size_t{batch_version}, size_t{rows_}, places_.size(), end_, size_t{0}})
    words.push(static_cast<uint32_t>(word));
  for (const Place& at : places_)
    for (size_t word : {static_cast<size_t>(at.kind), at.nulls, at.validity, at.offsets, at.data, at.data_bytes})
      words.push(static_cast<uint32_t>(word));
  put(out, 0, words.data, 4 * words.size);
  const Place& payload = places_[0];
  const int32_t* offsets = payload_.offsets.data;
  put(out, payload.offsets, offsets, 4 * (rows_ + size_t{1}));
  for (uint32_t row = 0; row < rows_; row++)
    std::memcpy(out + payload.data + offsets[row], payload_.from.data[row], offsets[row + 1] - offsets[row]);
  put(out, payload.data + payload.data_bytes, nullptr, 0);
  for (size_t i = 0; i < columns_.size(); i++) write_column(out, places_[i + 1], *columns_[i]);
}

}  // namespace weir
