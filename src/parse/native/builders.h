// Columns that grow by rows, and the batch that they become. A row is written in place and counts
// only once the kernel goes on at the next one. The kernel takes back an event or a whole request
// by going on at a smaller row.
#pragma once
#include "bytes.h"
#include "schema.h"

namespace weir {

class Builder {
 public:
  explicit Builder(Kind kind) { begin(kind); }

  // Empties the column and sets its kind. Its memory stays.
  void begin(Kind kind) {
    kind_ = kind;
    width_ = width_of(kind);
    data_.size = nulls_.size = 0;
  }

  Kind kind() const { return kind_; }
  size_t width() const { return width_; }

  // Makes room for `rows` rows in all.
  void reserve(size_t rows) {
    if (width_ != 0) return data_.reserve(rows * width_);
    offsets_.reserve(rows + 1);
    offsets_.data[0] = 0;
  }

  // Goes back to `rows` rows.
  void truncate(uint32_t rows) {
    while (nulls_.size > 0 && nulls_.data[nulls_.size - 1] >= rows) nulls_.size--;
    if (width_ == 0) data_.size = offsets_.data[rows];
  }

  void set_null(uint32_t row) {
    nulls_.push(row);
    if (width_ != 0) std::memset(data_.data + row * width_, 0, width_);
    else end_bytes(row);
  }

  template <typename T>
  void set(uint32_t row, T value) {
    std::memcpy(data_.data + row * sizeof(T), &value, sizeof(T));
  }

  template <typename T>
  T get(uint32_t row) const {
    T value;
    std::memcpy(&value, data_.data + row * sizeof(T), sizeof(T));
    return value;
  }

  // Appends to the row's bytes. `end_bytes` must follow.
  void add_bytes(const void* from, size_t bytes) { data_.append(static_cast<const uint8_t*>(from), bytes); }
  // Makes room for `bytes` more bytes, which the caller writes in place. `grow` must follow with
  // their number.
  uint8_t* room(size_t bytes) {
    data_.reserve(data_.size + bytes);
    return data_.data + data_.size;
  }
  void grow(size_t bytes) { data_.size += bytes; }
  void end_bytes(uint32_t row) { offsets_.data[row + 1] = static_cast<int32_t>(data_.size); }

  const uint8_t* row_bytes(uint32_t row, size_t* bytes) const {
    *bytes = offsets_.data[row + 1] - offsets_.data[row];
    return data_.data + offsets_.data[row];
  }

  const Buffer<uint8_t>& data() const { return data_; }
  const Buffer<int32_t>& offsets() const { return offsets_; }
  const Buffer<uint32_t>& nulls() const { return nulls_; }

 private:
  Kind kind_;
  size_t width_;
  Buffer<uint8_t> data_;
  Buffer<int32_t> offsets_;
  Buffer<uint32_t> nulls_;  // rows, ascending
};

// The payload column. Its rows are byte ranges of the slab, which are copied once, into the batch.
struct PayloadBuilder {
  Buffer<const uint8_t*> from;
  Buffer<int32_t> offsets;

  void reserve(size_t rows) {
    from.reserve(rows);
    offsets.reserve(rows + 1);
    offsets.data[0] = 0;
  }
  void set(uint32_t row, const uint8_t* data, uint32_t bytes) {
    from.data[row] = data;
    offsets.data[row + 1] = offsets.data[row] + static_cast<int32_t>(bytes);
  }
};

// The places of all buffers in a batch, computed before the batch's memory is allocated.
class Layout {
 public:
  Layout(uint32_t rows, const PayloadBuilder& payload, const Builder& key, const Builder* columns, size_t count);

  // Bytes of the whole batch.
  size_t bytes() const { return end_; }

  // Writes every byte, gaps included.
  void write(uint8_t* out) const;

 private:
  struct Place {
    Kind kind;
    size_t nulls, validity, offsets, data, data_bytes;
  };
  size_t place(size_t bytes);
  void add(const Builder& column);
  void write_column(uint8_t* out, const Place& at, const Builder& column) const;

  uint32_t rows_;
  const PayloadBuilder& payload_;
  std::vector<const Builder*> columns_;
  std::vector<Place> places_;  // payload first, then those of columns_
  size_t end_;
};

}  // namespace weir
