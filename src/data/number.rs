//! Numbers and truth: what a value of one type says when it is asked as another.
use super::{DataType, Rank, Status, Text, Value};

/// Reason why a value is no number of the type it was asked for (`PMIx_Value_get_number`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NumberError {
    /// One of the two types is not numeric.
    #[error("no number: a value of type {have} asked for as {want}")]
    NotNumeric {
        /// The value's type.
        have: DataType,
        /// The type it was asked for.
        want: DataType,
    },
    /// The number does not fit, or would come out as another number.
    #[error("a {have} that does not fit a {want}")]
    LostPrecision {
        /// The value's type.
        have: DataType,
        /// The type it was asked for.
        want: DataType,
    },
    /// The number is negative and the type is unsigned.
    #[error("a negative {have} asked for as {want}")]
    ChangeSign {
        /// The value's type.
        have: DataType,
        /// The type it was asked for.
        want: DataType,
    },
}

impl NumberError {
    /// The status that the C function returns.
    ///
    /// The two codes have the numbers of the newest release of the headers, -400 and -401. They collide there with
    /// `ERR_PROC_KILLED_BY_CMD` and `ERR_PROC_FAILED_TO_START` and moved to -202 and -203 later; programs compare with
    /// what they were compiled with, and nothing else returns either from this call.
    pub fn status(self) -> Status {
        match self {
            NumberError::NotNumeric { .. } => Status::ERR_BAD_PARAM,
            NumberError::LostPrecision { .. } => Status::ERR_LOST_PRECISION,
            NumberError::ChangeSign { .. } => Status::ERR_CHANGE_SIGN,
        }
    }
}

/// Any number: every integer type fits the first, every floating-point type the second.
#[derive(Clone, Copy)]
enum Number {
    Integer(i128),
    Real(f64),
}

impl Value {
    fn number(&self) -> Option<Number> {
        Some(match *self {
            Value::Byte(n) | Value::Uint8(n) => Number::Integer(n.into()),
            Value::Size(n) | Value::Uint64(n) => Number::Integer(n.into()),
            Value::Pid(n) | Value::Int(n) | Value::Int32(n) | Value::Status(Status(n)) => Number::Integer(n.into()),
            Value::Int8(n) => Number::Integer(n.into()),
            Value::Int16(n) => Number::Integer(n.into()),
            Value::Int64(n) | Value::Time(n) => Number::Integer(n.into()),
            Value::Uint(n) | Value::Uint32(n) | Value::ProcRank(Rank(n)) => Number::Integer(n.into()),
            Value::Uint16(n) => Number::Integer(n.into()),
            Value::Float(n) => Number::Real(n.into()),
            Value::Double(n) => Number::Real(n),
            _ => return None,
        })
    }

    /// Returns this number as a value of type `want`. Numeric are the integers and floating-point types, BYTE, SIZE,
    /// PID, TIME, STATUS and PROC_RANK.
    ///
    /// A fraction is cut off when an integer is wanted; a DOUBLE is rounded to a FLOAT.
    ///
    /// # Errors
    /// [`NumberError`] when either type is not numeric or the number does not fit.
    ///
    /// ```
    /// use instanton::data::{DataType, NumberError, Value};
    /// assert_eq!(Value::Int32(7).to_number(DataType::UINT16), Ok(Value::Uint16(7)));
    /// assert_eq!(Value::Float(-7.5).to_number(DataType::INT), Ok(Value::Int(-7)));
    /// assert!(matches!(Value::Int(-1).to_number(DataType::SIZE), Err(NumberError::ChangeSign { .. })));
    /// assert!(matches!(Value::Int(300).to_number(DataType::UINT8), Err(NumberError::LostPrecision { .. })));
    /// ```
    pub fn to_number(&self, want: DataType) -> Result<Value, NumberError> {
        let have = self.data_type();
        let lost = NumberError::LostPrecision { have, want };
        let number = self.number().ok_or(NumberError::NotNumeric { have, want })?;
        macro_rules! integer {
            ($variant:ident, $ty:ty) => {{
                let whole = match number {
                    Number::Integer(n) => n,
                    // The cast saturates, so what is too large stays too large; NaN would become 0.
                    Number::Real(x) if !x.is_nan() => x as i128,
                    Number::Real(_) => return Err(lost),
                };
                let negative = match number {
                    Number::Integer(n) => n < 0,
                    Number::Real(x) => x < 0.0,
                };
                if negative && <$ty>::MIN == 0 {
                    return Err(NumberError::ChangeSign { have, want });
                }
                Value::$variant(<$ty>::try_from(whole).map_err(|_| lost)?)
            }};
        }
        // A type with a meaning of its own becomes a number, and no other such type.
        let means_something = |ty| matches!(ty, DataType::PID | DataType::STATUS | DataType::PROC_RANK);
        if want != have && means_something(want) && means_something(have) {
            return Err(NumberError::NotNumeric { have, want });
        }
        Ok(match want {
            _ if want == have => self.clone(),
            DataType::BYTE => integer!(Byte, u8),
            DataType::SIZE => integer!(Size, u64),
            DataType::PID => integer!(Pid, i32),
            DataType::INT => integer!(Int, i32),
            DataType::INT8 => integer!(Int8, i8),
            DataType::INT16 => integer!(Int16, i16),
            DataType::INT32 => integer!(Int32, i32),
            DataType::INT64 => integer!(Int64, i64),
            DataType::UINT => integer!(Uint, u32),
            DataType::UINT8 => integer!(Uint8, u8),
            DataType::UINT16 => integer!(Uint16, u16),
            DataType::UINT32 => integer!(Uint32, u32),
            DataType::UINT64 => integer!(Uint64, u64),
            DataType::TIME => integer!(Time, i64),
            DataType::STATUS => match integer!(Int32, i32) {
                Value::Int32(code) => Value::Status(Status(code)),
                _ => return Err(lost),
            },
            DataType::PROC_RANK => match integer!(Uint32, u32) {
                Value::Uint32(rank) => Value::ProcRank(Rank(rank)),
                _ => return Err(lost),
            },
            DataType::FLOAT => match number {
                Number::Integer(n) if n as f32 as i128 == n => Value::Float(n as f32),
                Number::Real(x) if (x as f32).is_finite() || !x.is_finite() => Value::Float(x as f32),
                _ => return Err(lost),
            },
            DataType::DOUBLE => match number {
                Number::Integer(n) if n as f64 as i128 == n => Value::Double(n as f64),
                Number::Real(x) => Value::Double(x),
                _ => return Err(lost),
            },
            _ => return Err(NumberError::NotNumeric { have, want }),
        })
    }

    /// Returns the meaning of the value where a boolean is expected (`PMIx_Value_true`): a BOOL itself; a value of no
    /// type and a string of nothing mean that the attribute is simply there, which is true; a string that starts with a
    /// number is true unless the number is 0; and a few words. `None` when it is none of these.
    ///
    /// ```
    /// use instanton::data::Value;
    /// assert_eq!(Value::Undef.truth(), Some(true));
    /// assert_eq!(Value::from("Disable").truth(), Some(false));
    /// assert_eq!(Value::from("perhaps").truth(), None);
    /// ```
    pub fn truth(&self) -> Option<bool> {
        match self {
            Value::Undef | Value::String(None) => Some(true),
            Value::Bool(flag) => Some(*flag),
            Value::String(Some(text)) => truth_of_text(text),
            _ => None,
        }
    }
}

/// A floating-point number as C prints it with `%f`, which is how packed and printed values have it.
pub fn decimal(number: f64) -> String {
    let sign = if number.is_sign_negative() { "-" } else { "" };
    match () {
        () if number.is_nan() => format!("{sign}nan"),
        () if number.is_infinite() => format!("{sign}inf"),
        () => format!("{number:.6}"),
    }
}

fn truth_of_text(text: &Text) -> Option<bool> {
    let word = text.as_bytes().trim_ascii();
    let digits = word.iter().skip(usize::from(word.starts_with(b"-") || word.starts_with(b"+")));
    let mut digits = digits.take_while(|byte| byte.is_ascii_digit()).peekable();
    if digits.peek().is_some() {
        return Some(digits.any(|digit| *digit != b'0'));
    }
    let is = |words: &[&str]| words.iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()));
    let begins = |words: &[&str]| {
        words.iter().any(|w| word.get(..w.len()).is_some_and(|head| head.eq_ignore_ascii_case(w.as_bytes())))
    };
    match word {
        [] => Some(true),
        _ if is(&["y", "t", "enable"]) || begins(&["yes", "true"]) => Some(true),
        _ if is(&["n", "f", "disable"]) || begins(&["no", "false"]) => Some(false),
        _ => None,
    }
}
