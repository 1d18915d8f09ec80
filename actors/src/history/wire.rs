//! Protobuf's bytes, as much as histories need: numbers and bytes are written, whatever else is read is passed over.
//!
//! ```text
//! field  = varint(number << 3 | type), value
//! value  = varint                      type 0
//!        | length varint, bytes        type 2: texts, payloads, messages
//!        | 8 bytes, or 4               types 1 and 5: not written by this version
//! varint = 7 bits a byte, lowest first; all but the last have the high bit
//! ```

use super::error::Fault;

const VARINT: u32 = 0;
const FIXED_64: u32 = 1;
const BYTES: u32 = 2;
const FIXED_32: u32 = 5;

/// Numbers of fields have 29 bits.
const FIELD_MAX: u64 = (1 << 29) - 1;

/// Where fields are written to, or only counted.
pub(super) trait Sink {
    fn byte(&mut self, byte: u8);
    fn slice(&mut self, bytes: &[u8]);

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// A field that holds a number.
    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field << 3 | VARINT));
        self.varint(value);
    }

    /// A field that holds bytes.
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.head(field, Length(bytes.len()));
        self.slice(bytes);
    }

    /// Begins a field of so many bytes, which must follow.
    fn head(&mut self, field: u32, length: Length) {
        self.varint(u64::from(field << 3 | BYTES));
        self.varint(length.0 as u64);
    }
}

impl Sink for Vec<u8> {
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }

    fn slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// How long something will be: a sink that keeps nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Length(usize);

impl Length {
    pub(super) fn bytes(self) -> usize {
        self.0
    }
}

impl Sink for Length {
    fn byte(&mut self, _: u8) {
        self.0 += 1;
    }

    fn slice(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// What a field holds, not yet looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a type that no field of this version has.
    Other,
}

impl<'a> Raw<'a> {
    pub(super) fn number(self) -> Result<u64, Fault> {
        if let Raw::Number(number) = self { Ok(number) } else { Err(Fault::Shape) }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], Fault> {
        if let Raw::Bytes(bytes) = self { Ok(bytes) } else { Err(Fault::Shape) }
    }

    pub(super) fn text(self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Fault::Text)
    }
}

/// The fields of a message, in the order in which they stand. It ends behind the first fault.
pub(super) struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Fault::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for (index, &byte) in self.0.iter().enumerate() {
            // The tenth byte holds the last of 64 bits.
            if index == 9 && byte > 1 {
                return Err(Fault::Range);
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(Fault::Cut)
    }

    fn field(&mut self) -> Result<(u32, Raw<'a>), Fault> {
        let key = self.varint()?;
        let number = key >> 3;
        if !(1..=FIELD_MAX).contains(&number) {
            return Err(Fault::Range);
        }
        let raw = match (key & 7) as u32 {
            VARINT => Raw::Number(self.varint()?),
            BYTES => {
                let length = usize::try_from(self.varint()?).map_err(|_| Fault::Cut)?;
                Raw::Bytes(self.take(length)?)
            }
            FIXED_64 => self.take(8).map(|_| Raw::Other)?,
            FIXED_32 => self.take(4).map(|_| Raw::Other)?,
            _ => return Err(Fault::Shape),
        };
        Ok((number as u32, raw))
    }
}

impl<'a> Iterator for Source<'a> {
    type Item = Result<(u32, Raw<'a>), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.varint(value);
        let mut length = Length::default();
        length.varint(value);
        assert_eq!(length.bytes(), bytes.len());
        bytes
    }

    #[test]
    fn varints_come_back() {
        for shift in 0..64 {
            for value in [1 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let bytes = varint(value);
                let mut source = Source::new(&bytes);
                assert_eq!((source.varint(), source.0.len()), (Ok(value), 0));
            }
        }
        assert_eq!(varint(300), [0xac, 0x02]);
    }

    #[test]
    fn varints_beyond_64_bits_are_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 2;
        assert_eq!(Source::new(&bytes).varint(), Err(Fault::Range));
        assert_eq!(Source::new(&[0xff; 9]).varint(), Err(Fault::Cut));
        assert_eq!(Source::new(&[0x80; 11]).varint(), Err(Fault::Range));
    }

    #[test]
    fn fields_of_every_type_are_passed_over() {
        let mut bytes = vec![1 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 2 << 3 | 5, 0, 0, 0, 0];
        bytes.number(3, 7);
        bytes.bytes(FIELD_MAX as u32, b"x");
        let fields: Result<Vec<_>, _> = Source::new(&bytes).collect();
        let expected =
            vec![(1, Raw::Other), (2, Raw::Other), (3, Raw::Number(7)), (FIELD_MAX as u32, Raw::Bytes(b"x"))];
        assert_eq!(fields, Ok(expected));
    }

    #[test]
    fn what_is_no_field_ends_the_message() {
        let cases: [(&[u8], Fault); 6] = [
            (&[0x00, 0x00], Fault::Range),                             // field 0
            (&[0x0b, 0x0c], Fault::Shape),                             // a group
            (&[0x0a, 0x02, 0x00], Fault::Cut),                         // shorter than it says
            (&[0x0d, 0x00], Fault::Cut),                               // four bytes
            (&[0x80, 0x80, 0x80, 0x80, 0x10, 0x00], Fault::Range),     // field 2^29
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Fault::Cut), // a length without an end
        ];
        for (bytes, fault) in cases {
            let fields: Vec<_> = Source::new(bytes).collect();
            assert_eq!(fields, [Err(fault)], "{bytes:x?}");
        }
    }
}
