//! Reads a text in TOML as any type of the manifest.
//!
//! The compiler makes a deserializer's functions anew for every type that it reads. Those of `toml`
//! are large, and a manifest has thirty types. So this deserializer prepares a value in functions
//! that know no type, and the others only hand it on. It accepts the texts that `toml` accepts, and
//! its errors have the words and places of `toml`'s.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue, ValueDeserializer};

/// The key of the table that `toml` makes of a date.
const DATE: &str = "$__toml_private_datetime";

/// Reads a text.
///
/// # Errors
/// The text is not TOML, or is not a `T`.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, toml::de::Error> {
    let root = DeTable::parse(text)?;
    let span = root.span();
    let root = Value { value: DeValue::Table(root.into_inner()), span: span.clone() };
    T::deserialize(root).map_err(|wrong| wrong.at(span).told(text))
}

/// A value that is not as wanted.
#[derive(Debug)]
struct Wrong(Box<Complaint>);

#[derive(Debug)]
struct Complaint {
    message: String,
    span: Option<Range<usize>>,
}

impl Wrong {
    #[cold]
    fn new(message: String) -> Wrong {
        Wrong(Box::new(Complaint { message, span: None }))
    }

    /// Adds the place, if no inner value did.
    #[cold]
    fn at(mut self, span: Range<usize>) -> Wrong {
        self.0.span.get_or_insert(span);
        self
    }

    /// Returns the error of `toml`. Only a deserializer of `toml` gives it a place.
    fn told(self, text: &str) -> toml::de::Error {
        /// Refuses every value.
        struct Refusing(String);

        impl<'de> Visitor<'de> for Refusing {
            type Value = toml::de::Error;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("nothing")
            }
            fn visit_some<D: Deserializer<'de>>(self, _: D) -> Result<Self::Value, D::Error> {
                Err(D::Error::custom(self.0))
            }
        }

        let Complaint { message, span } = *self.0;
        let place = Spanned::new(span.unwrap_or_default(), DeValue::Boolean(false));
        let (Ok(mut error) | Err(mut error)) = ValueDeserializer::from(place).deserialize_option(Refusing(message));
        error.set_input(Some(text));
        error
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Wrong {}

impl Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Wrong {
        Wrong::new(message.to_string())
    }
}

/// A value and its place.
struct Value<'i> {
    value: DeValue<'i>,
    span: Range<usize>,
}

/// A value in the form in which visitors take it.
enum Ready<'i> {
    Text(Cow<'i, str>),
    Flag(bool),
    Signed(i64),
    Unsigned(u64),
    /// An integer that is too large, in words.
    Large(String),
    Float(f64),
    List(List<'i>),
    Table(Table<'i>),
}

impl<'i> Value<'i> {
    fn new(of: Spanned<DeValue<'i>>) -> Value<'i> {
        Value { span: of.span(), value: of.into_inner() }
    }

    #[inline(never)]
    fn ready(self) -> Result<Ready<'i>, Wrong> {
        Ok(match self.value {
            DeValue::String(text) => Ready::Text(text),
            DeValue::Integer(number) => integer(&number)?,
            DeValue::Float(number) => {
                let value = number.as_str().parse::<f64>().ok();
                let value = value.filter(|value| !value.is_infinite() || number.as_str().contains("inf"));
                Ready::Float(value.ok_or_else(|| Wrong::new("floating-point number overflowed".to_owned()))?)
            }
            DeValue::Boolean(flag) => Ready::Flag(flag),
            DeValue::Datetime(date) => {
                let spanned = |value| Spanned::new(self.span.clone(), value);
                let text = DeValue::String(Cow::Owned(date.to_string()));
                let entry = (Spanned::new(self.span.clone(), Cow::Borrowed(DATE)), spanned(text));
                Ready::Table(Table::new([entry].into_iter().collect()))
            }
            DeValue::Array(list) => Ready::List(List(list.into_iter())),
            DeValue::Table(table) => Ready::Table(Table::new(table)),
        })
    }

    /// Takes the value for a choice: the name alone, or a table of the name and its content.
    #[inline(never)]
    fn choice(self) -> Result<Choice<'i>, Wrong> {
        let wrong = |message: &str| Err(Wrong::new(message.to_owned()));
        match self.value {
            DeValue::String(name) => Ok(Choice { name: Spanned::new(self.span, name), content: None }),
            DeValue::Table(table) if table.len() > 1 => wrong("wanted exactly 1 element, more than 1 element"),
            DeValue::Table(table) => match table.into_iter().next() {
                Some((name, content)) => Ok(Choice { name, content: Some(Value::new(content)) }),
                None => wrong("wanted exactly 1 element, found 0 elements"),
            },
            _ => wrong("wanted string or table"),
        }
    }
}

fn integer<'i>(number: &DeInteger<'_>) -> Result<Ready<'i>, Wrong> {
    let (digits, radix) = (number.as_str(), number.radix());
    if let Ok(value) = i64::from_str_radix(digits, radix) {
        Ok(Ready::Signed(value))
    } else if let Ok(value) = u64::from_str_radix(digits, radix) {
        Ok(Ready::Unsigned(value))
    } else if let Ok(value) = i128::from_str_radix(digits, radix) {
        Ok(Ready::Large(format!("integer `{value}` as i128")))
    } else if let Ok(value) = u128::from_str_radix(digits, radix) {
        Ok(Ready::Large(format!("integer `{value}` as u128")))
    } else {
        Err(Wrong::new("integer number overflowed".to_owned()))
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let span = self.span.clone();
        let visited = match self.ready() {
            Ok(Ready::Text(text)) => visitor.visit_str(&text),
            Ok(Ready::Flag(flag)) => visitor.visit_bool(flag),
            Ok(Ready::Signed(number)) => visitor.visit_i64(number),
            Ok(Ready::Unsigned(number)) => visitor.visit_u64(number),
            Ok(Ready::Large(number)) => Err(Wrong::invalid_type(Unexpected::Other(&number), &visitor)),
            Ok(Ready::Float(number)) => visitor.visit_f64(number),
            Ok(Ready::List(list)) => visitor.visit_seq(list),
            Ok(Ready::Table(table)) => visitor.visit_map(table),
            Err(wrong) => Err(wrong),
        };
        visited.map_err(|wrong| wrong.at(span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let span = self.span.clone();
        visitor.visit_some(self).map_err(|wrong| wrong.at(span))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Wrong> {
        let span = self.span.clone();
        visitor.visit_newtype_struct(self).map_err(|wrong| wrong.at(span))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let span = self.span.clone();
        self.choice().and_then(|choice| visitor.visit_enum(choice)).map_err(|wrong| wrong.at(span))
    }

    forward_to_deserialize_any! {
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string seq bytes byte_buf map unit
        ignored_any unit_struct tuple_struct tuple identifier struct
    }
}

/// Returns a deserializer of a key.
fn key<'k>(name: &'k Spanned<Cow<'_, str>>) -> StrDeserializer<'k, Wrong> {
    name.get_ref().as_ref().into_deserializer()
}

/// The values of a list that were not read yet.
struct List<'i>(std::vec::IntoIter<Spanned<DeValue<'i>>>);

impl<'de> SeqAccess<'de> for List<'de> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        self.0.next().map(|value| seed.deserialize(Value::new(value))).transpose()
    }
}

/// The entries of a table that were not read yet.
struct Table<'i> {
    entries: toml::map::IntoIter<Spanned<Cow<'i, str>>, Spanned<DeValue<'i>>>,
    value: Option<Value<'i>>,
}

impl<'i> Table<'i> {
    fn new(table: DeTable<'i>) -> Table<'i> {
        Table { entries: table.into_iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for Table<'de> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        let Some((name, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(Value::new(value));
        seed.deserialize(key(&name)).map(Some).map_err(|wrong| wrong.at(name.span()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let value = self.value.take().ok_or_else(|| Wrong::new("a value without its key".to_owned()))?;
        let span = value.span.clone();
        seed.deserialize(value).map_err(|wrong| wrong.at(span))
    }
}

/// One of several names, with a content or without.
struct Choice<'i> {
    name: Spanned<Cow<'i, str>>,
    content: Option<Value<'i>>,
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = Wrong;
    type Variant = Content<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content<'de>), Wrong> {
        let chosen = seed.deserialize(key(&self.name)).map_err(|wrong| wrong.at(self.name.span()))?;
        Ok((chosen, Content(self.content)))
    }
}

/// The content of a choice.
struct Content<'i>(Option<Value<'i>>);

impl<'i> Content<'i> {
    fn wanted(self, what: &str) -> Result<Value<'i>, Wrong> {
        self.0.ok_or_else(|| Wrong::invalid_type(Unexpected::UnitVariant, &what))
    }
}

impl<'de> VariantAccess<'de> for Content<'de> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        let Some(Value { value, span }) = self.0 else { return Ok(()) };
        let message = match &value {
            DeValue::Array(list) if list.is_empty() => return Ok(()),
            DeValue::Table(table) if table.is_empty() => return Ok(()),
            DeValue::Array(_) => "expected empty array".to_owned(),
            DeValue::Table(_) => "expected empty table".to_owned(),
            other => format!("expected table, found {}", other.type_str()),
        };
        Err(Wrong::new(message).at(span))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Wrong> {
        seed.deserialize(self.wanted("newtype variant")?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.wanted("tuple variant")?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Wrong> {
        self.wanted("struct variant")?.deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{InterfaceFile, Manifest};
    use std::fmt::Debug;

    /// Texts for places where a manifest has a value.
    const VALUES: [&str; 30] = [
        "\"text\"",
        "\"\"",
        "\"a\\tb\"",
        "\"read\"",
        "\"1 s\"",
        "\"64 MiB\"",
        "\"stdin\"",
        "0",
        "-1",
        "0x10",
        "9223372036854775808",
        "170141183460469231731687303715884105727",
        "340282366920938463463374607431768211455",
        "340282366920938463463374607431768211456",
        "1.5",
        "1e400",
        "inf",
        "nan",
        "true",
        "1979-05-27",
        "1979-05-27T07:32:00Z",
        "[]",
        "[\"a\", 1]",
        "{}",
        "{ read = \"in\" }",
        "{ stdin = [] }",
        "{ stdin = [1] }",
        "{ stdin = 1 }",
        "{ stdin = {}, stdout = {} }",
        "no value",
    ];

    /// Returns the block of TOML in the documentation of a module.
    fn documented(source: &str) -> String {
        let block = source.split("```").nth(1).unwrap();
        block.lines().skip(1).map(|line| line.trim_start_matches("//!").to_owned() + "\n").collect()
    }

    /// Adds the places of the keys and values of a table.
    fn places(table: &DeTable<'_>, keys: &mut Vec<Range<usize>>, values: &mut Vec<Range<usize>>) {
        for (key, value) in table {
            keys.push(key.span());
            place(value, keys, values);
        }
    }

    fn place(value: &Spanned<DeValue<'_>>, keys: &mut Vec<Range<usize>>, values: &mut Vec<Range<usize>>) {
        values.push(value.span());
        match value.get_ref() {
            DeValue::Table(inner) => places(inner, keys, values),
            DeValue::Array(list) => list.iter().for_each(|value| place(value, keys, values)),
            _ => {}
        }
    }

    /// Reads a text with both deserializers. Returns whether it is a `T`.
    fn both<T: DeserializeOwned + Debug>(text: &str) -> bool {
        let [own, other] = [read::<T>(text), toml::from_str::<T>(text)];
        let said = |result: &Result<T, toml::de::Error>| match result {
            Ok(value) => format!("{value:?}"),
            Err(error) => format!("{:?} {error}", error.span()),
        };
        assert_eq!(said(&own), said(&other), "{text}");
        own.is_ok()
    }

    #[test]
    fn every_text_is_read_as_toml_reads_it() {
        let base = documented(include_str!("mod.rs")) + &documented(include_str!("syscalls.rs"));
        let base = base + "[interfaces]\nf = [\"void f()\"]\ng = \"g.toml\"\n";
        assert!(both::<Manifest>(&base));
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        places(DeTable::parse(&base).unwrap().get_ref(), &mut keys, &mut values);
        assert!(keys.len() > 100 && values.len() > 150, "{} keys, {} values", keys.len(), values.len());
        let changed = |place: &Range<usize>, to: &str| [&base[..place.start], to, &base[place.end..]].concat();
        let mut good = 0;
        for place in &values {
            good += VALUES.iter().filter(|value| both::<Manifest>(&changed(place, value))).count();
        }
        assert!(good > 400 && good < values.len() * VALUES.len() / 2, "{good} of {}", values.len());
        assert!(keys.iter().filter(|place| both::<Manifest>(&changed(place, "other"))).count() > 10);
        for (list, good) in [("[\"void f()\"]", true), ("[\"void f()\", \"f\"]", false), ("[[]]", false)] {
            assert_eq!(both::<InterfaceFile>(&format!("functions = {list}")), good);
        }
    }
}
