//! A part of the positive list, see [`super`]. Checked and written by the test `policy_table`.

super::forms! {
    Integer None(0) [] writes() clobbers() {
        Cmp_AL_imm8 Cmp_EAX_imm32 Cmp_RAX_imm32 Sahf Test_AL_imm8 Test_EAX_imm32 Test_RAX_imm32 Cmc Clc Stc Cld
    }
    Integer None(0) [] writes() clobbers(RAX) {
        Cwde Cdqe Lahf
    }
    Integer None(0) [] writes() clobbers(RDX) {
        Cdq Cqo
    }
    Integer None(0) [] writes(0) clobbers() {
        Add_AL_imm8 Add_EAX_imm32 Add_RAX_imm32 Or_AL_imm8 Or_EAX_imm32 Or_RAX_imm32 Adc_AL_imm8 Adc_EAX_imm32
        Adc_RAX_imm32 Sbb_AL_imm8 Sbb_EAX_imm32 Sbb_RAX_imm32 And_AL_imm8 And_EAX_imm32 And_RAX_imm32 Sub_AL_imm8
        Sub_EAX_imm32 Sub_RAX_imm32 Xor_AL_imm8 Xor_EAX_imm32 Xor_RAX_imm32 Mov_r8_imm8 Mov_r32_imm32 Mov_r64_imm64
        Rdrand_r32 Rdrand_r64 Rdseed_r32 Rdseed_r64 Bswap_r32 Bswap_r64
    }
    Integer None(0) [] writes(0 1) clobbers() {
        Xchg_r32_EAX Xchg_r64_RAX
    }
    Integer None(0) [P66] writes() clobbers() {
        Cmp_AX_imm16 Test_AX_imm16
    }
    Integer None(0) [P66] writes() clobbers(RAX) {
        Cbw
    }
    Integer None(0) [P66] writes() clobbers(RDX) {
        Cwd
    }
    Integer None(0) [P66] writes(0) clobbers() {
        Add_AX_imm16 Or_AX_imm16 Adc_AX_imm16 Sbb_AX_imm16 And_AX_imm16 Sub_AX_imm16 Xor_AX_imm16 Mov_r16_imm16
        Rdrand_r16 Rdseed_r16
    }
    Integer None(0) [P66] writes(0 1) clobbers() {
        Xchg_r16_AX
    }
    Integer Address(1) [] writes(0) clobbers() {
        Lea_r32_m Lea_r64_m
    }
    Integer Address(1) [P66] writes(0) clobbers() {
        Lea_r16_m
    }
    Integer Load(0) [] writes() clobbers() {
        Cmp_rm8_r8 Cmp_rm32_r32 Cmp_rm64_r64 Cmp_rm8_imm8 Cmp_rm32_imm32 Cmp_rm64_imm32 Cmp_rm32_imm8 Cmp_rm64_imm8
        Test_rm8_r8 Test_rm32_r32 Test_rm64_r64 Test_rm8_imm8 Test_rm32_imm32 Test_rm64_imm32 Bt_rm32_imm8
        Bt_rm64_imm8
    }
    Integer Load(0) [] writes() clobbers(RAX) {
        Mul_rm8 Imul_rm8 Div_rm8 Idiv_rm8
    }
    Integer Load(0) [] writes() clobbers(RAX RDX) {
        Mul_rm32 Mul_rm64 Imul_rm32 Imul_rm64 Div_rm32 Div_rm64 Idiv_rm32 Idiv_rm64
    }
    Integer Load(0) [P66] writes() clobbers() {
        Cmp_rm16_r16 Cmp_rm16_imm16 Cmp_rm16_imm8 Test_rm16_r16 Test_rm16_imm16 Bt_rm16_imm8
    }
    Integer Load(0) [P66] writes() clobbers(RAX RDX) {
        Mul_rm16 Imul_rm16 Div_rm16 Idiv_rm16
    }
    Integer Load(1) [] writes() clobbers() {
        Cmp_r8_rm8 Cmp_r32_rm32 Cmp_r64_rm64
    }
    Integer Load(1) [] writes(0) clobbers() {
        Add_r8_rm8 Add_r32_rm32 Add_r64_rm64 Or_r8_rm8 Or_r32_rm32 Or_r64_rm64 Adc_r8_rm8 Adc_r32_rm32 Adc_r64_rm64
        Sbb_r8_rm8 Sbb_r32_rm32 Sbb_r64_rm64 And_r8_rm8 And_r32_rm32 And_r64_rm64 Sub_r8_rm8 Sub_r32_rm32 Sub_r64_rm64
        Xor_r8_rm8 Xor_r32_rm32 Xor_r64_rm64 Movsxd_r64_rm32 Imul_r32_rm32_imm32 Imul_r64_rm64_imm32
        Imul_r32_rm32_imm8 Imul_r64_rm64_imm8 Mov_r8_rm8 Mov_r32_rm32 Mov_r64_rm64 Cmovo_r32_rm32 Cmovo_r64_rm64
        Cmovno_r32_rm32 Cmovno_r64_rm64 Cmovb_r32_rm32 Cmovb_r64_rm64 Cmovae_r32_rm32 Cmovae_r64_rm64 Cmove_r32_rm32
        Cmove_r64_rm64 Cmovne_r32_rm32 Cmovne_r64_rm64 Cmovbe_r32_rm32 Cmovbe_r64_rm64 Cmova_r32_rm32 Cmova_r64_rm64
        Cmovs_r32_rm32 Cmovs_r64_rm64 Cmovns_r32_rm32 Cmovns_r64_rm64 Cmovp_r32_rm32 Cmovp_r64_rm64 Cmovnp_r32_rm32
        Cmovnp_r64_rm64 Cmovl_r32_rm32 Cmovl_r64_rm64 Cmovge_r32_rm32 Cmovge_r64_rm64 Cmovle_r32_rm32 Cmovle_r64_rm64
        Cmovg_r32_rm32 Cmovg_r64_rm64 Imul_r32_rm32 Imul_r64_rm64 Movzx_r32_rm8 Movzx_r64_rm8 Movzx_r32_rm16
        Movzx_r64_rm16 Bsf_r32_rm32 Bsf_r64_rm64 Bsr_r32_rm32 Bsr_r64_rm64 Movsx_r32_rm8 Movsx_r64_rm8 Movsx_r32_rm16
        Movsx_r64_rm16 Movbe_r32_m32 Movbe_r64_m64 VEX_Blsr_r32_rm32 VEX_Blsr_r64_rm64 VEX_Blsmsk_r32_rm32
        VEX_Blsmsk_r64_rm64 VEX_Blsi_r32_rm32 VEX_Blsi_r64_rm64 VEX_Bzhi_r32_rm32_r32 VEX_Bzhi_r64_rm64_r64
        VEX_Bextr_r32_rm32_r32 VEX_Bextr_r64_rm64_r64 VEX_Shlx_r32_rm32_r32 VEX_Shlx_r64_rm64_r64
        VEX_Sarx_r32_rm32_r32 VEX_Sarx_r64_rm64_r64 VEX_Shrx_r32_rm32_r32 VEX_Shrx_r64_rm64_r64 VEX_Rorx_r32_rm32_imm8
        VEX_Rorx_r64_rm64_imm8
    }
    Integer Load(1) [P66] writes() clobbers() {
        Cmp_r16_rm16
    }
    Integer Load(1) [P66] writes(0) clobbers() {
        Add_r16_rm16 Or_r16_rm16 Adc_r16_rm16 Sbb_r16_rm16 And_r16_rm16 Sub_r16_rm16 Xor_r16_rm16 Imul_r16_rm16_imm16
        Imul_r16_rm16_imm8 Mov_r16_rm16 Cmovo_r16_rm16 Cmovno_r16_rm16 Cmovb_r16_rm16 Cmovae_r16_rm16 Cmove_r16_rm16
        Cmovne_r16_rm16 Cmovbe_r16_rm16 Cmova_r16_rm16 Cmovs_r16_rm16 Cmovns_r16_rm16 Cmovp_r16_rm16 Cmovnp_r16_rm16
        Cmovl_r16_rm16 Cmovge_r16_rm16 Cmovle_r16_rm16 Cmovg_r16_rm16 Imul_r16_rm16 Movzx_r16_rm8 Movzx_r16_rm16
        Bsf_r16_rm16 Bsr_r16_rm16 Movsx_r16_rm8 Movsx_r16_rm16 Movbe_r16_m16 Adcx_r32_rm32 Adcx_r64_rm64
    }
    Integer Load(1) [PF3] writes(0) clobbers() {
        Popcnt_r32_rm32 Popcnt_r64_rm64 Tzcnt_r32_rm32 Tzcnt_r64_rm64 Lzcnt_r32_rm32 Lzcnt_r64_rm64 Adox_r32_rm32
        Adox_r64_rm64
    }
    Integer Load(1) [P66 PF3] writes(0) clobbers() {
        Popcnt_r16_rm16 Tzcnt_r16_rm16 Lzcnt_r16_rm16
    }
    Integer Load(1) [PF2] writes(0) clobbers() {
        Crc32_r32_rm8 Crc32_r64_rm8 Crc32_r32_rm32 Crc32_r64_rm64
    }
    Integer Load(1) [P66 PF2] writes(0) clobbers() {
        Crc32_r32_rm16
    }
    Integer Load(2) [] writes(0) clobbers() {
        VEX_Andn_r32_r32_rm32 VEX_Andn_r64_r64_rm64 VEX_Pext_r32_r32_rm32 VEX_Pext_r64_r64_rm64 VEX_Pdep_r32_r32_rm32
        VEX_Pdep_r64_r64_rm64
    }
    Integer Load(2) [] writes(0 1) clobbers() {
        VEX_Mulx_r32_r32_rm32 VEX_Mulx_r64_r64_rm64
    }
    Integer Store(0) [] writes() clobbers() {
        Movnti_m32_r32 Movnti_m64_r64 Movbe_m32_r32 Movbe_m64_r64
    }
    Integer Store(0) [] writes(0) clobbers() {
        Mov_rm8_r8 Mov_rm32_r32 Mov_rm64_r64 Rol_rm8_imm8 Ror_rm8_imm8 Rcl_rm8_imm8 Rcr_rm8_imm8 Shl_rm8_imm8
        Shr_rm8_imm8 Sar_rm8_imm8 Rol_rm32_imm8 Rol_rm64_imm8 Ror_rm32_imm8 Ror_rm64_imm8 Rcl_rm32_imm8 Rcl_rm64_imm8
        Rcr_rm32_imm8 Rcr_rm64_imm8 Shl_rm32_imm8 Shl_rm64_imm8 Shr_rm32_imm8 Shr_rm64_imm8 Sar_rm32_imm8
        Sar_rm64_imm8 Mov_rm8_imm8 Mov_rm32_imm32 Mov_rm64_imm32 Rol_rm8_1 Ror_rm8_1 Rcl_rm8_1 Rcr_rm8_1 Shl_rm8_1
        Shr_rm8_1 Sar_rm8_1 Rol_rm32_1 Rol_rm64_1 Ror_rm32_1 Ror_rm64_1 Rcl_rm32_1 Rcl_rm64_1 Rcr_rm32_1 Rcr_rm64_1
        Shl_rm32_1 Shl_rm64_1 Shr_rm32_1 Shr_rm64_1 Sar_rm32_1 Sar_rm64_1 Rol_rm8_CL Ror_rm8_CL Rcl_rm8_CL Rcr_rm8_CL
        Shl_rm8_CL Shr_rm8_CL Sar_rm8_CL Rol_rm32_CL Rol_rm64_CL Ror_rm32_CL Ror_rm64_CL Rcl_rm32_CL Rcl_rm64_CL
        Rcr_rm32_CL Rcr_rm64_CL Shl_rm32_CL Shl_rm64_CL Shr_rm32_CL Shr_rm64_CL Sar_rm32_CL Sar_rm64_CL Seto_rm8
        Setno_rm8 Setb_rm8 Setae_rm8 Sete_rm8 Setne_rm8 Setbe_rm8 Seta_rm8 Sets_rm8 Setns_rm8 Setp_rm8 Setnp_rm8
        Setl_rm8 Setge_rm8 Setle_rm8 Setg_rm8 Shld_rm32_r32_imm8 Shld_rm64_r64_imm8 Shld_rm32_r32_CL Shld_rm64_r64_CL
        Shrd_rm32_r32_imm8 Shrd_rm64_r64_imm8 Shrd_rm32_r32_CL Shrd_rm64_r64_CL
    }
    Integer Store(0) [P66] writes() clobbers() {
        Movbe_m16_r16
    }
    Integer Store(0) [P66] writes(0) clobbers() {
        Mov_rm16_r16 Rol_rm16_imm8 Ror_rm16_imm8 Rcl_rm16_imm8 Rcr_rm16_imm8 Shl_rm16_imm8 Shr_rm16_imm8 Sar_rm16_imm8
        Mov_rm16_imm16 Rol_rm16_1 Ror_rm16_1 Rcl_rm16_1 Rcr_rm16_1 Shl_rm16_1 Shr_rm16_1 Sar_rm16_1 Rol_rm16_CL
        Ror_rm16_CL Rcl_rm16_CL Rcr_rm16_CL Shl_rm16_CL Shr_rm16_CL Sar_rm16_CL Shld_rm16_r16_imm8 Shld_rm16_r16_CL
        Shrd_rm16_r16_imm8 Shrd_rm16_r16_CL
    }
    Integer Lockable(0) [] writes() clobbers(RAX RDX) {
        Cmpxchg8b_m64 Cmpxchg16b_m128
    }
    Integer Lockable(0) [] writes(0) clobbers() {
        Add_rm8_r8 Add_rm32_r32 Add_rm64_r64 Or_rm8_r8 Or_rm32_r32 Or_rm64_r64 Adc_rm8_r8 Adc_rm32_r32 Adc_rm64_r64
        Sbb_rm8_r8 Sbb_rm32_r32 Sbb_rm64_r64 And_rm8_r8 And_rm32_r32 And_rm64_r64 Sub_rm8_r8 Sub_rm32_r32 Sub_rm64_r64
        Xor_rm8_r8 Xor_rm32_r32 Xor_rm64_r64 Add_rm8_imm8 Or_rm8_imm8 Adc_rm8_imm8 Sbb_rm8_imm8 And_rm8_imm8
        Sub_rm8_imm8 Xor_rm8_imm8 Add_rm32_imm32 Add_rm64_imm32 Or_rm32_imm32 Or_rm64_imm32 Adc_rm32_imm32
        Adc_rm64_imm32 Sbb_rm32_imm32 Sbb_rm64_imm32 And_rm32_imm32 And_rm64_imm32 Sub_rm32_imm32 Sub_rm64_imm32
        Xor_rm32_imm32 Xor_rm64_imm32 Add_rm32_imm8 Add_rm64_imm8 Or_rm32_imm8 Or_rm64_imm8 Adc_rm32_imm8
        Adc_rm64_imm8 Sbb_rm32_imm8 Sbb_rm64_imm8 And_rm32_imm8 And_rm64_imm8 Sub_rm32_imm8 Sub_rm64_imm8
        Xor_rm32_imm8 Xor_rm64_imm8 Not_rm8 Neg_rm8 Not_rm32 Not_rm64 Neg_rm32 Neg_rm64 Inc_rm8 Dec_rm8 Inc_rm32
        Inc_rm64 Dec_rm32 Dec_rm64 Bts_rm32_imm8 Bts_rm64_imm8 Btr_rm32_imm8 Btr_rm64_imm8 Btc_rm32_imm8 Btc_rm64_imm8
    }
    Integer Lockable(0) [] writes(0) clobbers(RAX) {
        Cmpxchg_rm8_r8 Cmpxchg_rm32_r32 Cmpxchg_rm64_r64
    }
    Integer Lockable(0) [] writes(0 1) clobbers() {
        Xchg_rm8_r8 Xchg_rm32_r32 Xchg_rm64_r64 Xadd_rm8_r8 Xadd_rm32_r32 Xadd_rm64_r64
    }
    Integer Lockable(0) [P66] writes(0) clobbers() {
        Add_rm16_r16 Or_rm16_r16 Adc_rm16_r16 Sbb_rm16_r16 And_rm16_r16 Sub_rm16_r16 Xor_rm16_r16 Add_rm16_imm16
        Or_rm16_imm16 Adc_rm16_imm16 Sbb_rm16_imm16 And_rm16_imm16 Sub_rm16_imm16 Xor_rm16_imm16 Add_rm16_imm8
        Or_rm16_imm8 Adc_rm16_imm8 Sbb_rm16_imm8 And_rm16_imm8 Sub_rm16_imm8 Xor_rm16_imm8 Not_rm16 Neg_rm16 Inc_rm16
        Dec_rm16 Bts_rm16_imm8 Btr_rm16_imm8 Btc_rm16_imm8
    }
    Integer Lockable(0) [P66] writes(0) clobbers(RAX) {
        Cmpxchg_rm16_r16
    }
    Integer Lockable(0) [P66] writes(0 1) clobbers() {
        Xchg_rm16_r16 Xadd_rm16_r16
    }
    Integer Moving(0) [] writes() clobbers() {
        Bt_rm32_r32 Bt_rm64_r64
    }
    Integer Moving(0) [] writes(0) clobbers() {
        Bts_rm32_r32 Bts_rm64_r64 Btr_rm32_r32 Btr_rm64_r64 Btc_rm32_r32 Btc_rm64_r64
    }
    Integer Moving(0) [P66] writes() clobbers() {
        Bt_rm16_r16
    }
    Integer Moving(0) [P66] writes(0) clobbers() {
        Bts_rm16_r16 Btr_rm16_r16 Btc_rm16_r16
    }
    Trap None(0) [] writes() clobbers() {
        Int3 Ud2
    }
    Clock None(0) [] writes() clobbers(RAX RDX) {
        Rdtsc
    }
    Identity None(0) [] writes() clobbers(RAX RCX RDX RBX) {
        Cpuid
    }
    Hint None(0) [] writes() clobbers() {
        Nopd Nopq Lfence Mfence Sfence
    }
    Hint None(0) [P66] writes() clobbers() {
        Nopw
    }
    Hint None(0) [PF3] writes() clobbers() {
        Pause Endbr64
    }
    Hint Address(0) [] writes() clobbers() {
        Nop_rm32 Nop_rm64
    }
    Hint Address(0) [P66] writes() clobbers() {
        Nop_rm16
    }
}
